#include "daemon/swarm/swarm_net.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <libtorrent/add_torrent_params.hpp>
#include <libtorrent/address.hpp>
#include <libtorrent/alert_types.hpp>
#include <libtorrent/session_stats.hpp>
#include <libtorrent/torrent_info.hpp>

#include "daemon/swarm/session_settings.h"
#include "daemon/swarm/swarm_plugins.h"
#include "daemon/swarm/torrent.h"
#include "protocol/hash.h"
#include "protocol/limits.h"

namespace p2pw {
namespace {

constexpr std::chrono::milliseconds kWatchdogPeriod{250};
constexpr std::chrono::milliseconds kWatchdogAsleep{
    1000};  // between two rounds: then it was us who stood still
constexpr std::chrono::seconds kQuietAfterDrop{1};

// libtorrent never looks at these bytes: BundleDisk drops blocks of chunks that are in the file already.
char ignored_bytes[limits::kMaxChunkBytes];

Error to_error(const lt::error_code& error, const std::string& what) {
  const ErrorCode code =
      error == boost::system::errc::no_space_on_device ? ErrorCode::no_space : ErrorCode::io;
  return fail(code, what + ": " + error.message());
}

}  // namespace

SwarmNet::SwarmNet(const SwarmOptions& options, std::shared_ptr<EventSink> sink)
    : options_(options), sink_(std::move(sink)), neighbours_(options.self) {}

SwarmNet::~SwarmNet() = default;

std::unique_ptr<lt::disk_interface> SwarmNet::make_disk(lt::io_context& io) {
  io_ = &io;
  auto disk = std::make_unique<BundleDisk>(io, shared_from_this(), options_.disk_threads);
  disk_ = disk.get();
  return disk;
}

void SwarmNet::start(lt::session_handle session) {
  session_ = std::move(session);
  last_watch_ = Clock::now();
  dial_timer_ = std::make_unique<boost::asio::steady_timer>(*io_);
  watchdog_ = std::make_unique<boost::asio::steady_timer>(*io_);
  again_timer_ = std::make_unique<boost::asio::steady_timer>(*io_);
  session_.set_alert_notify([weak = weak_from_this(), io = io_] {
    boost::asio::post(*io, [weak] {
      if (auto self = weak.lock()) self->handle_alerts();
    });
  });
  set_region_class(session_, options_);
  guarded(BundleId(), [this] { add_resident(); });
  arm_watchdog();
}

void SwarmNet::stop() {
  stopped_ = true;
  disk_ = nullptr;
  dial_timer_.reset();
  watchdog_.reset();
  again_timer_.reset();
  again_.clear();
  torrents_.clear();
  counters_.torrents = 0;
}

void SwarmNet::guarded(const BundleId& bundle, const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& e) {
    sink_->failed(bundle, fail(ErrorCode::failed, "swarm of bundle " + bundle.short_hex() + ": " + e.what()));
  }
}

// While a session has no torrent at all it closes incoming connections without telling anybody, and we would
// not know whom to dial back. So there is always one, which nobody else has.
void SwarmNet::add_resident() {
  BundleRecord record;
  record.used_bytes = record.chunk_bytes = limits::kMinChunkBytes;
  const Bytes zeros(record.chunk_bytes);
  const std::vector<ChunkRoot> roots{chunk_root(zeros, record.chunk_bytes)};
  record.pieces_root = pieces_root(roots, record.chunk_bytes);
  auto torrent = std::make_shared<SwarmTorrent>();
  torrent->id = id_as<BundleId>(sha256(options_.self.view()));
  auto added = add_torrent(record, roots, torrent);
  if (added.ok()) added->resume();
}

Result<lt::torrent_handle> SwarmNet::add_torrent(const BundleRecord& record,
                                                 const std::vector<ChunkRoot>& roots,
                                                 const std::shared_ptr<SwarmTorrent>& torrent) {
  lt::add_torrent_params params;
  P2PW_TRY(params.ti, make_torrent(torrent->id, record, roots));
  params.save_path =
      "/" + torrent->id.hex();  // only a name between us and BundleDisk; absolute, so that it stays as it is
  params.flags = lt::torrent_flags::paused | lt::torrent_flags::apply_ip_filter |
                 lt::torrent_flags::no_verify_files | lt::torrent_flags::disable_dht |
                 lt::torrent_flags::disable_lsd | lt::torrent_flags::disable_pex;
  params.have_pieces.resize(static_cast<int>(roots.size()), false);
  for (std::uint32_t i = 0; i < roots.size(); ++i) {
    if (!torrent->file || torrent->file->has(ChunkIndex(i))) {
      params.have_pieces.set_bit(lt::piece_index_t(static_cast<int>(i)));
    }
  }
  params.extensions.push_back(
      [self = shared_from_this(), torrent](const lt::torrent_handle&, lt::client_data_t) {
        return make_torrent_plugin(self, torrent);
      });
  if (torrent->file) disk_->expect(params.save_path, torrent->id, torrent->file);
  lt::error_code error;
  lt::torrent_handle handle = session_.add_torrent(std::move(params), error);
  if (error)
    return fail(ErrorCode::failed, "swarm of bundle " + torrent->id.short_hex() + ": " + error.message());
  return handle;
}

void SwarmNet::add(const BundleId& id, const BundleRecord& record, const std::vector<ChunkRoot>& roots,
                   std::shared_ptr<BundleFile> file, SwarmGroups group) {
  if (stopped_ || torrents_.contains(id)) return;
  guarded(id, [&] {
    auto torrent = std::make_shared<SwarmTorrent>();
    torrent->id = id;
    torrent->file = std::move(file);
    torrent->group = group;
    torrent->gate = HaveGate(torrent->file->chunk_count());
    auto added = add_torrent(record, roots, torrent);
    if (!added.ok()) return sink_->failed(id, added.error());
    torrent->handle = *added;
    torrent->to_dial = neighbours_.to_dial(id, group);
    torrents_.emplace(id, torrent);
    counters_.torrents = static_cast<std::uint32_t>(torrents_.size());
    // We run on the network thread, so nothing can come in between adding and dialling.
    dial_refused(*torrent);
    dial(*torrent);
  });
}

void SwarmNet::offer(const BundleId& id, ChunkIndex chunk) {
  auto it = torrents_.find(id);
  if (stopped_ || it == torrents_.end()) return;
  SwarmTorrent& torrent = *it->second;
  if (chunk.value() >= torrent.file->chunk_count() || !torrent.file->has(chunk)) return;
  torrent.blame.forget(chunk);
  guarded(id, [&] {
    torrent.handle.add_piece(lt::piece_index_t(static_cast<int>(chunk.value())), ignored_bytes, {});
  });
  if (handed_on(torrent, chunk)) return sink_->chunk_handed_on(id, chunk);
  torrent.unshared.insert(chunk);
}

void SwarmNet::go_on_asking() {
  if (will_ask_ || !pacer_.has_due() || stopped_) return;
  will_ask_ = true;
  boost::asio::post(*io_, [weak = weak_from_this()] {
    auto self = weak.lock();
    if (!self || self->stopped_) return;
    self->will_ask_ = false;
    self->guarded(BundleId(), [&] { self->ask_what_is_due(); });
  });
}

void SwarmNet::ask_what_is_due() {
  while (auto due = pacer_.due(Clock::now())) {
    auto* connection = static_cast<SwarmConnection*>(due->connection);
    const lt::peer_request request{lt::piece_index_t(due->request.piece), due->request.start, due->request.length};
    due->cancelled ? connection->ask_in_vain(request) : connection->ask(request);
  }
}

void SwarmNet::remove(const BundleId& id) {
  auto it = torrents_.find(id);
  if (stopped_ || it == torrents_.end()) return;
  std::shared_ptr<SwarmTorrent> torrent = std::move(it->second);
  torrents_.erase(it);
  counters_.torrents = static_cast<std::uint32_t>(torrents_.size());
  guarded(id, [&] { session_.remove_torrent(torrent->handle); });
}

void SwarmNet::set_members(std::vector<SwarmPeer> members) {
  if (stopped_) return;
  std::erase_if(members, [](SwarmPeer& member) {
    lt::error_code error;
    member.address = lt::make_address(member.address, error).to_string();  // one spelling for each address
    return bool(error);
  });
  const Neighbours::Change change = neighbours_.set(std::move(members));
  if (change.joined.empty() && change.left.empty()) return;
  guarded(BundleId(), [&] {
    session_.set_ip_filter(members_only(neighbours_.all()));
    for (const SwarmPeer& member : change.left) {
      quiet_until_.erase(member.key);
      disconnect(member);
    }
    for (auto& [id, torrent] : torrents_) {
      torrent->to_dial = neighbours_.to_dial(id, torrent->group);
      if (!misses_somebody(*torrent)) continue;
      torrent->dial_timer.restart();
      dial(*torrent);
    }
  });
}

void SwarmNet::drop(const NodeKey& key) {
  const SwarmPeer* member = neighbours_.find(key);
  if (stopped_ || member == nullptr) return;
  quiet_until_[key] = Clock::now() + kQuietAfterDrop;
  disconnect(*member);
}

void SwarmNet::disconnect(const SwarmPeer& member) {
  for (auto& [id, torrent] : torrents_) {
    const std::vector<SwarmConnection*> connections = torrent->connections;  // closing changes it
    for (SwarmConnection* connection : connections) {
      if (connection->belongs_to(member)) connection->close(lt::errors::timed_out);
    }
  }
}

bool SwarmNet::admits(const SwarmTorrent& torrent, const std::string& address) const {
  return neighbours_.knows(address) && !torrent.blocked.contains(address);
}

bool SwarmNet::admits(const SwarmTorrent& torrent, const std::string& address, std::uint16_t port) const {
  if (torrent.blocked.contains(address)) return false;
  return port == 0 ? neighbours_.knows(address) : neighbours_.find(address, port) != nullptr;
}

void SwarmNet::connection_opened(SwarmTorrent& torrent, SwarmConnection& connection) {
  ++counters_.connections;
  torrent.connections.push_back(&connection);
  if (connection.outgoing()) ++torrent.dials;
  auto it = std::find(torrent.senders.begin(), torrent.senders.end(), connection.address());
  if (it == torrent.senders.end()) it = torrent.senders.insert(it, connection.address());
  connection.set_sender(static_cast<Blame::Sender>(it - torrent.senders.begin() + 1));
}

void SwarmNet::connection_closed(SwarmTorrent& torrent, SwarmConnection& connection) {
  --counters_.connections;
  std::erase(torrent.connections, &connection);
  pacer_.closed(&connection);
  if (stopped_) return;
  if (alone(torrent)) announced_all(torrent);
  go_on_asking();
  if (connection.ready()) torrent.dial_timer.restart();
  plan_dial(torrent);
}

void SwarmNet::arm_watchdog() {
  watchdog_->expires_after(kWatchdogPeriod);
  watchdog_->async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    auto self = weak.lock();
    if (!error && self && !self->stopped_) self->on_watchdog();
  });
}

void SwarmNet::on_watchdog() {
  const Clock::time_point now = Clock::now();
  const bool asleep = now - std::exchange(last_watch_, now) > kWatchdogAsleep;
  for (auto& [id, torrent] : torrents_) {
    guarded(id, [&, t = torrent.get()] {
      const std::vector<SwarmConnection*> connections = t->connections;
      for (SwarmConnection* connection : connections) {
        if (asleep) connection->excuse(now);
        if (connection->stalled(now, options_.stall)) connection->close(lt::errors::timed_out_no_request);
      }
      plan_dial(*t);  // whoever was to be left alone for a while
    });
  }
  arm_watchdog();
}

void SwarmNet::chunk_stored(const BundleId& bundle, ChunkIndex chunk) {
  sink_->chunk_arrived(bundle, chunk);
}

void SwarmNet::chunk_checked(const BundleId& bundle, ChunkIndex chunk, bool passed,
                             const std::vector<Sha256>& blocks) {
  if (!passed) ++counters_.hash_failures;
  auto it = torrents_.find(bundle);
  if (stopped_ || it == torrents_.end()) return;
  std::shared_ptr<SwarmTorrent> torrent = it->second;
  const auto guilty = passed ? torrent->blame.passed(chunk, blocks) : torrent->blame.failed(chunk, blocks);
  for (Blame::Sender sender : guilty) {
    block(*torrent, torrent->senders.at(sender - 1),
          "it sent bytes of chunk " + std::to_string(chunk.value()) + " that do not match their hash");
  }
}

void SwarmNet::block(SwarmTorrent& torrent, const std::string& address, const std::string& reason) {
  if (!torrent.blocked.insert(address).second) return;
  sink_->peer_blocked(torrent.id, address, reason);
  const std::vector<SwarmConnection*> connections = torrent.connections;
  for (SwarmConnection* connection : connections) {
    if (connection->address() == address) connection->close(lt::errors::too_many_corrupt_pieces);
  }
}

void SwarmNet::handle_alerts() {
  if (stopped_) return;
  guarded(BundleId(), [this] {
    std::vector<lt::alert*> alerts;
    session_.pop_alerts(&alerts);
    for (lt::alert* alert : alerts) handle_alert(alert);
  });
}

SwarmTorrent* SwarmNet::find(const lt::torrent_handle& handle) {
  for (auto& [id, torrent] : torrents_) {
    if (torrent->handle == handle) return torrent.get();
  }
  return nullptr;
}

void SwarmNet::handle_alert(lt::alert* alert) {
  if (auto* blocked = lt::alert_cast<lt::peer_blocked_alert>(alert)) {
    if (blocked->reason == lt::peer_blocked_alert::ip_filter) ++counters_.refused_strangers;
  } else if (auto* banned = lt::alert_cast<lt::peer_ban_alert>(alert)) {
    if (SwarmTorrent* torrent = find(banned->handle)) {
      block(*torrent, banned->endpoint.address().to_string(), "it sent bytes that do not match their hash");
    }
  } else if (auto* failed = lt::alert_cast<lt::torrent_error_alert>(alert)) {
    if (SwarmTorrent* torrent = find(failed->handle)) {
      sink_->failed(torrent->id, to_error(failed->error, "swarm of bundle " + torrent->id.short_hex()));
    }
  } else if (auto* disk = lt::alert_cast<lt::file_error_alert>(alert)) {
    if (SwarmTorrent* torrent = find(disk->handle)) {
      sink_->failed(torrent->id, to_error(disk->error, "file of bundle " + torrent->id.short_hex()));
    }
  } else if (auto* stats = lt::alert_cast<lt::session_stats_alert>(alert)) {
    static const int redundant = lt::find_metric_idx("net.recv_redundant_bytes");
    if (redundant >= 0) counters_.redundant = static_cast<std::uint64_t>(stats->counters()[redundant]);
  }
}

void SwarmNet::ask_for_stats() {
  if (!stopped_) guarded(BundleId(), [this] { session_.post_session_stats(); });
}

}  // namespace p2pw
