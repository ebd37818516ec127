#include "daemon/swarm/swarm_libtorrent.h"

#include <boost/asio/post.hpp>
#include <libtorrent/address.hpp>
#include <libtorrent/alert_types.hpp>
#include <libtorrent/session.hpp>
#include <libtorrent/session_params.hpp>

#include "daemon/swarm/session_settings.h"
#include "daemon/swarm/swarm_net.h"
#include "daemon/swarm/swarm_plugins.h"

namespace p2pw {
namespace {

class LibtorrentSwarm final : public Swarm {
 public:
  LibtorrentSwarm(const SwarmOptions& options, SwarmEvents& events, PostToControl post)
      : sink_(std::make_shared<EventSink>(events, std::move(post))),
        net_(std::make_shared<SwarmNet>(options, sink_)) {}

  ~LibtorrentSwarm() override {
    sink_->close();
    session_.reset();
  }

  Status open(const SwarmOptions& options);

  void add(const BundleId& id, const BundleRecord& record, std::vector<ChunkRoot> roots,
           std::shared_ptr<BundleFile> file, SwarmGroups group) override {
    run([id, record, roots = std::move(roots), file = std::move(file), group](SwarmNet& net) mutable {
      net.add(id, record, roots, std::move(file), group);
    });
  }
  void offer(const BundleId& id, ChunkIndex chunk) override {
    run([id, chunk](SwarmNet& net) { net.offer(id, chunk); });
  }
  void remove(const BundleId& id) override {
    run([id](SwarmNet& net) { net.remove(id); });
  }
  void set_members(std::vector<SwarmPeer> members) override {
    run([members = std::move(members)](SwarmNet& net) mutable { net.set_members(std::move(members)); });
  }
  void drop(const NodeKey& member) override {
    run([member](SwarmNet& net) { net.drop(member); });
  }
  SwarmCounters counters() const override;
  std::uint16_t listen_port() const override { return port_; }

 private:
  template <class Work>
  void run(Work work) const {
    boost::asio::post(net_->io(), [net = net_, work = std::move(work)]() mutable { work(*net); });
  }

  std::shared_ptr<EventSink> sink_;
  std::shared_ptr<SwarmNet> net_;
  std::unique_ptr<lt::session> session_;
  std::uint16_t port_ = 0;
};

Status LibtorrentSwarm::open(const SwarmOptions& options) {
  lt::error_code error;
  lt::make_address(options.address, error);
  if (error) {
    return fail(ErrorCode::config, "the swarm address '" + options.address + "' is not an IP address");
  }
  try {
    lt::session_params params(session_settings(options), {make_session_plugin(net_)});
    params.ip_filter = members_only({});
    params.disk_io_constructor = [net = net_.get()](lt::io_context& io, const lt::settings_interface&,
                                                    lt::counters&) { return net->make_disk(io); };
    session_ = std::make_unique<lt::session>(std::move(params));
    port_ = session_->listen_port();
    if (port_ == 0) {
      std::string reason = "nothing listens";
      ErrorCode code = ErrorCode::io;
      std::vector<lt::alert*> alerts;
      session_->pop_alerts(&alerts);
      for (lt::alert* alert : alerts) {
        auto* failed = lt::alert_cast<lt::listen_failed_alert>(alert);
        if (failed == nullptr) continue;
        reason = failed->error.message();
        if (failed->error == boost::system::errc::address_in_use) code = ErrorCode::busy;
      }
      return fail(code, "the swarm cannot listen on " + options.address + " port " +
                            std::to_string(options.port) + ": " + reason);
    }
  } catch (const std::exception& e) {
    return fail(ErrorCode::failed, std::string("starting libtorrent: ") + e.what());
  }
  run([session = lt::session_handle(*session_)](SwarmNet& net) { net.start(session); });
  return {};
}

SwarmCounters LibtorrentSwarm::counters() const {
  // libtorrent answers later: its part is as old as the last call.
  run([](SwarmNet& net) { net.ask_for_stats(); });
  const AtomicCounters& now = net_->counters();
  SwarmCounters counters;
  counters.payload_sent = now.payload_sent;
  counters.payload_received = now.payload_received;
  counters.redundant = now.redundant;
  counters.hash_failures = now.hash_failures;
  counters.torrents = now.torrents;
  counters.connections = now.connections;
  counters.refused_strangers = now.refused_strangers;
  return counters;
}

}  // namespace

Result<std::unique_ptr<Swarm>> open_libtorrent_swarm(const SwarmOptions& options, SwarmEvents& events,
                                                     PostToControl post) {
  auto swarm = std::make_unique<LibtorrentSwarm>(options, events, std::move(post));
  P2PW_CHECK(swarm->open(options));
  return std::unique_ptr<Swarm>(std::move(swarm));
}

}  // namespace p2pw
