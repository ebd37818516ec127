// Links without sockets, for tests of the daemon's core: any number of nodes in one process, virtual delays,
// rates, loss of links and partitions, on a clock that only the test moves. Everything is deterministic.
//
//   FakeLinks net;
//   LoopbackHub& a = net.add(key_a, hello_a, handler_a);   // handlers must outlive `net`
//   LoopbackHub& b = net.add(key_b, hello_b, handler_b);
//   net.set_path(key_a, key_b, {.delay = 40ms, .rate_bits = 200'000'000});
//   a.dial(net.endpoint_of(key_b), key_b);
//   net.run_for(1s);                        // or net.run_until([&] { return ...; }, 10s)
//   net.cut(key_a, key_b); net.heal(key_a, key_b); net.kill(key_b); net.revive(key_b);
//
// As on real links: messages of a pair keep their order, chunks travel in a lane of their own, a cut is
// noticed only after the silence time-out, a kill at once, a hung node (hang()) neither sends nor handles
// until it resumes.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <vector>

#include "daemon/link/link_hub.h"

namespace p2pw::testing {

class FakeLinks;

class LoopbackHub final : public LinkHub {
 public:
  void dial(const LinkEndpoint& endpoint, std::optional<NodeKey> expected) override;
  void undial(const NodeKey& peer) override;
  void undial(const LinkEndpoint& endpoint) override;
  bool linked(const NodeKey& peer) const override;
  std::vector<NodeKey> links() const override;
  void send(const NodeKey& peer, const wire::LinkMessage& message, SharedBytes payload = {}) override;
  bool send_chunk(const NodeKey& peer, const wire::Chunk& chunk, SharedBytes payload) override;
  bool send_bulk(const NodeKey& peer, const wire::LinkMessage& message, SharedBytes payload) override;
  void cut_queue(const NodeKey& peer, const BundleId& bundle) override;
  void drop(const NodeKey& peer, const Error& reason) override;
  void ban(const NodeKey& peer, const std::string& reason) override;
  std::optional<LinkStats> stats(const NodeKey& peer) const override;
  std::optional<std::chrono::steady_clock::time_point> last_heard(const NodeKey& peer) const override;

  void set_hello(const wire::Hello& hello) { hello_ = hello; }

 private:
  friend class FakeLinks;
  LoopbackHub(FakeLinks& net, const NodeKey& key, const wire::Hello& hello, LinkHandler& handler)
      : net_(net), key_(key), hello_(hello), handler_(handler) {}

  FakeLinks& net_;
  NodeKey key_;
  wire::Hello hello_;
  LinkHandler& handler_;
  std::map<LinkEndpoint, std::optional<NodeKey>> targets_;
  std::set<NodeKey> banned_;
  std::set<LinkEndpoint> dialling_;            // an attempt is scheduled or under way
  std::vector<std::function<void()>> missed_;  // while hung
  bool dead_ = false;
  bool hung_ = false;
};

class FakeLinks {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  struct Path {
    Duration delay{0};            // one way, both ways alike
    std::uint64_t rate_bits = 0;  // of chunks and bulk, each way; 0 = no limit
    Duration clock_offset{0};     // how far the second node's wall clock is ahead of the first's
  };
  static constexpr std::chrono::seconds kSilence{5};
  static constexpr std::chrono::milliseconds kRedial{200};

  // Its endpoint is {"node-<first 8 hex digits>", 4710}.
  LoopbackHub& add(const NodeKey& key, const wire::Hello& hello, LinkHandler& handler);
  static LinkEndpoint endpoint_of(const NodeKey& key);
  LoopbackHub& hub(const NodeKey& key) { return *nodes_.at(key); }

  void set_path(const NodeKey& a, const NodeKey& b, Path path);
  void set_default_path(Path path) { default_path_ = path; }
  // Nothing passes any more; both notice after kSilence. Healed before that, what was on its way arrives
  // late.
  void cut(const NodeKey& a, const NodeKey& b);
  void heal(const NodeKey& a, const NodeKey& b);
  // The process is gone: peers notice after one delay. A revived one starts without links, dials and bans.
  void kill(const NodeKey& key);
  void revive(const NodeKey& key);
  // SIGSTOP and SIGCONT: peers notice after kSilence; what arrives meanwhile waits. Timers that the node has
  // set with at() go on: let them look at hung().
  void hang(const NodeKey& key);
  void resume(const NodeKey& key);
  bool hung(const NodeKey& key) const { return nodes_.at(key)->hung_; }

  Time now() const { return now_; }
  // The core's own timers, on the same clock.
  void at(Time when, std::function<void()> action);
  void after(Duration pause, std::function<void()> action) { at(now_ + pause, std::move(action)); }
  // Moves the clock event by event. run_until() is false when `done` did not become true within `bound`.
  void run_for(Duration duration);
  bool run_until(const std::function<bool()>& done, Duration bound);

  // Chunk payload written from `from` to `to`, over all their links.
  std::uint64_t payload_between(const NodeKey& from, const NodeKey& to) const;

 private:
  friend class LoopbackHub;
  using Pair = std::pair<NodeKey, NodeKey>;
  struct Cargo {
    wire::LinkMessage message;
    SharedBytes payload;
  };
  struct End {  // one node's end of a link, by (it, its peer)
    std::uint64_t link = 0;
    std::vector<Cargo> waiting;  // chunks and bulk to send that have not begun
    bool busy = false;           // one of them is being written
    Time heard{};                // when trouble began, else not kept
    std::vector<Cargo> held;     // arrived while hung or cut off
  };
  struct Event {
    Time when;
    std::uint64_t order;
    std::function<void()> action;
    bool operator>(const Event& other) const {
      return when != other.when ? when > other.when : order > other.order;
    }
  };

  static Pair pair_of(const NodeKey& a, const NodeKey& b) { return a < b ? Pair{a, b} : Pair{b, a}; }
  Path path(const NodeKey& a, const NodeKey& b) const;
  bool cut_between(const NodeKey& a, const NodeKey& b) const { return cuts_.contains(pair_of(a, b)); }
  bool has_link(const NodeKey& from, const NodeKey& to) const { return ends_.contains({from, to}); }
  bool has_link(const NodeKey& from, const NodeKey& to, std::uint64_t link) const;
  void schedule_dial(const NodeKey& from, const LinkEndpoint& endpoint, Duration pause);
  void redial(const NodeKey& from, const NodeKey& to);
  void try_dial(const NodeKey& from, const LinkEndpoint& endpoint);
  void connect(const NodeKey& from, const NodeKey& to, const LinkEndpoint& endpoint);
  void end_link(const NodeKey& local, const NodeKey& peer,
                const Error& reason);  // at `local`; the peer hears later
  void end_half(const NodeKey& local, const NodeKey& peer, const Error& reason);
  void watch_silence(const NodeKey& local, const NodeKey& peer, std::uint64_t link);
  void transmit(const NodeKey& from, const NodeKey& to);
  void deliver(const NodeKey& from, const NodeKey& to, std::uint64_t link, Cargo cargo);
  void hand_over(const NodeKey& from, const NodeKey& to, const Cargo& cargo);
  void carry(const NodeKey& from, const NodeKey& to, Cargo cargo);

  Time now_ = Time(std::chrono::hours(1));
  std::uint64_t order_ = 0;
  std::uint64_t link_count_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::map<NodeKey, std::unique_ptr<LoopbackHub>> nodes_;
  std::map<LinkEndpoint, NodeKey> places_;
  std::map<Pair, Path> paths_;
  Path default_path_;
  std::set<Pair> cuts_;
  std::map<Pair, End> ends_;
  std::map<Pair, LinkStats> totals_;  // of the first about the second
};

}  // namespace p2pw::testing
