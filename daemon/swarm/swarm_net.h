// The half of the swarm that lives on libtorrent's network thread: torrents, their connections, dialling
// (swarm_net_dial.cpp), announcing (swarm_net_announce.cpp), the watchdog.
//
// Threads: everything on the network thread, except chunk_stored() and what is marked. Events go out through
// EventSink, which posts them to the control thread.
#pragma once

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <libtorrent/io_context.hpp>
#include <libtorrent/peer_connection_handle.hpp>
#include <libtorrent/session_handle.hpp>
#include <libtorrent/torrent_handle.hpp>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/swarm/blame.h"
#include "daemon/swarm/bundle_disk.h"
#include "daemon/swarm/event_sink.h"
#include "daemon/swarm/have_gate.h"
#include "daemon/swarm/neighbours.h"
#include "daemon/swarm/request_pacer.h"
#include "daemon/swarm/swarm_libtorrent.h"

namespace p2pw {

struct AtomicCounters {
  std::atomic<std::uint64_t> payload_sent{0}, payload_received{0}, redundant{0}, hash_failures{0};
  std::atomic<std::uint32_t> torrents{0}, connections{0}, refused_strangers{0};
};

class SwarmConnection;

struct SwarmTorrent {
  BundleId id;
  std::shared_ptr<BundleFile> file;
  SwarmGroups group = kEveryGroup;
  lt::torrent_handle handle;
  std::vector<SwarmConnection*> connections;  // they take themselves out
  std::set<std::string> blocked;              // addresses
  Blame blame;
  HaveGate gate{0};
  std::set<ChunkIndex> unshared;     // offered, and at no neighbour that we know of
  std::vector<std::string> senders;  // address of Blame::Sender i + 1
  std::vector<SwarmPeer> to_dial;    // see Neighbours
  DialTimer dial_timer;
  int dials = 0;  // since libtorrent's budget for dialling at once was filled
};

class SwarmNet final : public DiskListener, public std::enable_shared_from_this<SwarmNet> {
 public:
  SwarmNet(const SwarmOptions& options, std::shared_ptr<EventSink> sink);
  ~SwarmNet() override;

  // Before the session starts: its plugin and its disk.
  lt::io_context& io() { return *io_; }
  std::unique_ptr<lt::disk_interface> make_disk(lt::io_context& io);
  void start(lt::session_handle session);
  void stop();

  void add(const BundleId& id, const BundleRecord& record, const std::vector<ChunkRoot>& roots,
           std::shared_ptr<BundleFile> file, SwarmGroups group);
  void offer(const BundleId& id, ChunkIndex chunk);
  void remove(const BundleId& id);
  void set_members(std::vector<SwarmPeer> members);
  void drop(const NodeKey& member);
  void ask_for_stats();

  const AtomicCounters& counters() const { return counters_; }  // any thread

  // DiskListener
  void chunk_stored(const BundleId& bundle, ChunkIndex chunk) override;
  void chunk_checked(const BundleId& bundle, ChunkIndex chunk, bool passed,
                     const std::vector<Sha256>& blocks) override;

  // From the plugins.
  bool dialling() const { return dialling_; }
  bool admits(const SwarmTorrent& torrent, const std::string& address) const;
  bool admits(const SwarmTorrent& torrent, const std::string& address, std::uint16_t port) const;
  void refused_stranger() { ++counters_.refused_strangers; }
  void refused_unknown(const lt::sha1_hash& info_hash, const std::string& address);
  void connection_opened(SwarmTorrent& torrent, SwarmConnection& connection);
  void announced(SwarmTorrent& torrent, ChunkIndex chunk);  // by a neighbour
  void announced_all(SwarmTorrent& torrent);
  void connection_known(SwarmTorrent& torrent) { plan_dial(torrent); }  // it has told its port
  void chunk_held(SwarmTorrent& torrent, ChunkIndex chunk);  // libtorrent has announced it
  void connection_closed(SwarmTorrent& torrent, SwarmConnection& connection);
  RequestPacer& pacer() { return pacer_; }
  void go_on_asking();  // soon, and not from within libtorrent's own doing
  void payload_sent(int bytes) { counters_.payload_sent += static_cast<std::uint64_t>(bytes); }
  void payload_received(int bytes) { counters_.payload_received += static_cast<std::uint64_t>(bytes); }

 private:
  using Clock = std::chrono::steady_clock;

  Result<lt::torrent_handle> add_torrent(const BundleRecord& record, const std::vector<ChunkRoot>& roots,
                                         const std::shared_ptr<SwarmTorrent>& torrent);
  void add_resident();
  void dial_refused(SwarmTorrent& torrent);
  bool connected(const SwarmTorrent& torrent, const SwarmPeer& member) const;
  bool misses_somebody(const SwarmTorrent& torrent) const;
  void dial(SwarmTorrent& torrent);
  void plan_dial(SwarmTorrent& torrent);
  void arm_dial_timer();
  void on_dial_timer();
  static bool alone(const SwarmTorrent& torrent);  // nobody is there to take a chunk
  static bool handed_on(const SwarmTorrent& torrent, ChunkIndex chunk);
  void announce_again(SwarmTorrent& torrent, ChunkIndex chunk, std::size_t most);
  void arm_again_timer();
  void on_again_timer();
  void ask_what_is_due();
  void arm_watchdog();
  void on_watchdog();
  void disconnect(const SwarmPeer& member);
  void block(SwarmTorrent& torrent, const std::string& address, const std::string& reason);
  void handle_alerts();
  void handle_alert(lt::alert* alert);
  SwarmTorrent* find(const lt::torrent_handle& handle);
  // Runs `work`, turning what libtorrent throws into an error of the bundle.
  void guarded(const BundleId& bundle, const std::function<void()>& work);

  SwarmOptions options_;
  std::shared_ptr<EventSink> sink_;
  AtomicCounters counters_;
  lt::io_context* io_ = nullptr;
  BundleDisk* disk_ = nullptr;  // owned by the session
  lt::session_handle session_;
  Neighbours neighbours_;
  std::map<NodeKey, Clock::time_point> quiet_until_;  // members that were dropped
  std::unordered_map<BundleId, std::shared_ptr<SwarmTorrent>> torrents_;
  // Who tried to reach us for a torrent that we did not have: they are dialled when we do.
  std::map<lt::sha1_hash, std::set<std::string>> refused_;
  std::deque<lt::sha1_hash> refused_order_;
  struct Again {
    Clock::time_point at;
    BundleId bundle;
    ChunkIndex chunk;
  };
  std::deque<Again> again_;  // by time
  std::unique_ptr<boost::asio::steady_timer> dial_timer_, watchdog_, again_timer_;
  Clock::time_point last_watch_{};
  bool dialling_ = false;  // inside dial(): the pause is not one
  bool stopped_ = false;
  std::uint64_t dials_ = 0;
  RequestPacer pacer_;
  bool will_ask_ = false;
};

}  // namespace p2pw
