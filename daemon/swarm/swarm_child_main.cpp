#include "daemon/swarm/swarm_child_main.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstring>
#include <deque>
#include <map>

#include "daemon/swarm/child_ledger.h"
#include "daemon/swarm/child_process.h"
#include "daemon/swarm/sandbox.h"
#include "daemon/swarm/swarm_child.h"
#include "protocol/swarm_child.pb.h"

namespace p2pw {
namespace {

namespace asio = boost::asio;

constexpr std::chrono::seconds kCountPeriod{1};
constexpr std::size_t kMostNotes = 4096;  // waiting reports that are no chunks; more are left out
constexpr int kChunksAtOnce = 4096;

struct Broken {};  // the daemon cannot be understood

class Child final : public SwarmEvents {
 public:
  Child() : socket_(io_, kChildSocket), count_(io_) {}
  int run();

 private:
  struct Bundle {
    std::uint32_t number = 0;
    BundleId id;
    BundleRecord record;
    std::string have;
    SwarmGroups group = 0;
    int fd = -1;
    std::vector<ChunkRoot> roots;
    std::shared_ptr<BundleFile> file;  // when all roots are here
  };

  void listen();
  void obey(const std::string& packet, int handed);
  void start(const wire::SwarmStart& start);
  void add(const wire::SwarmAdd& add, int handed);
  void roots(const wire::SwarmRoots& roots);
  void offer(const wire::SwarmOffer& offer);
  void remove(std::uint32_t number);
  void members(const wire::SwarmMembers& members);

  void swarm_chunk_arrived(const BundleId& bundle, ChunkIndex chunk) override;
  void swarm_chunk_handed_on(const BundleId& bundle, ChunkIndex chunk) override;
  void swarm_peer_blocked(const BundleId& bundle, const std::string& address, const std::string& reason) override;
  void swarm_failed(const BundleId& bundle, const Error& error) override;
  using ChunksToTell = std::map<std::uint32_t, std::deque<std::uint32_t>>;  // by bundle
  void tell(ChunksToTell& chunks, const BundleId& bundle, ChunkIndex chunk);
  std::uint32_t number_of(const BundleId& bundle) const;
  void note(const wire::SwarmReport& report);
  void count();
  void flush_soon();
  void flush();
  template <class Said>
  bool flush(ChunksToTell& chunks, Said* (wire::SwarmReport::*said)());
  bool send(const wire::SwarmReport& report);

  asio::io_context io_{1};
  asio::posix::stream_descriptor socket_;
  asio::steady_timer count_;
  std::unique_ptr<Swarm> swarm_;
  std::map<std::uint32_t, Bundle> bundles_;
  std::unordered_map<BundleId, std::uint32_t> numbers_;
  std::uint32_t adding_ = 0;  // its roots are still coming
  std::vector<SwarmPeer> members_;
  ChunksToTell arrived_, handed_on_;
  std::deque<wire::SwarmReport> notes_;
  bool flush_posted_ = false, waits_to_write_ = false;
  int result_ = 0;
};

template <class Id>
Id id_of(const std::string& bytes) {
  auto id = Id::from(bytes);
  if (!id) throw Broken();
  return *id;
}

int Child::run() {
  listen();
  io_.run();
  return result_;
}

void Child::listen() {
  socket_.async_wait(asio::posix::stream_descriptor::wait_read, [this](boost::system::error_code error) {
    if (error) return io_.stop();
    std::string packet;
    for (int i = 0; i < 64; ++i) {
      int handed = -1;
      const PacketState state = receive_packet(kChildSocket, packet, &handed);
      if (state == PacketState::would_wait) break;
      if (state == PacketState::ended) return io_.stop();
      try {
        obey(packet, handed);
      } catch (const Broken&) {
        result_ = 1;
        return io_.stop();
      }
    }
    listen();
  });
}

void Child::obey(const std::string& packet, int handed) {
  wire::SwarmOrder order;
  using Body = wire::SwarmOrder::BodyCase;
  if (!order.ParseFromString(packet) || order.has_start() == (swarm_ != nullptr)) throw Broken();
  switch (order.body_case()) {
    case Body::kStart:
      return start(order.start());
    case Body::kAdd:
      return add(order.add(), handed);
    case Body::kRoots:
      return roots(order.roots());
    case Body::kOffer:
      return offer(order.offer());
    case Body::kRemove:
      return remove(order.remove().number());
    case Body::kMembers:
      return members(order.members());
    case Body::kDrop:
      return swarm_->drop(id_of<NodeKey>(order.drop().node()));
    case Body::BODY_NOT_SET:
      throw Broken();
  }
}

void Child::start(const wire::SwarmStart& start) {
  SwarmOptions options;
  options.self = id_of<NodeKey>(start.self());
  options.address = start.address();
  options.port = static_cast<std::uint16_t>(start.port());
  options.upload_limit = start.upload_limit();
  options.download_limit = start.download_limit();
  options.stall = std::chrono::milliseconds(start.stall_ms());
  options.disk_threads = static_cast<int>(start.disk_threads());
  const Sandbox sandbox = enter_sandbox(options.port);
  auto opened = open_libtorrent_swarm(options, *this, [this](std::function<void()> work) {
    asio::post(io_, std::move(work));
  });
  wire::SwarmReport report;
  if (!opened.ok()) {
    report.mutable_failed()->set_code(static_cast<std::uint32_t>(opened.error().code));
    report.mutable_failed()->set_message(opened.error().message.substr(0, ChildLedger::kMaxText));
    send(report);
    return io_.stop();
  }
  swarm_ = std::move(*opened);
  report.mutable_started()->set_port(swarm_->listen_port());
  report.mutable_started()->set_landlock(sandbox.landlock);
  report.mutable_started()->set_seccomp(sandbox.seccomp);
  if (!send(report)) throw Broken();
  count();
}

void Child::add(const wire::SwarmAdd& add, int handed) {
  if (handed < 0 || adding_ != 0) throw Broken();
  Bundle bundle;
  bundle.number = add.number();
  bundle.id = id_of<BundleId>(add.bundle());
  bundle.record.used_bytes = add.used_bytes();
  bundle.record.chunk_bytes = add.chunk_bytes();
  bundle.record.pieces_root = id_of<Sha256>(add.pieces_root());
  bundle.have = add.have();
  bundle.group = add.group();
  bundle.fd = handed;
  if (bundle.record.chunk_bytes == 0) throw Broken();
  adding_ = bundle.number;
  bundles_[bundle.number] = std::move(bundle);
}

void Child::roots(const wire::SwarmRoots& roots) {
  if (adding_ == 0) throw Broken();
  Bundle& bundle = bundles_.at(adding_);
  const std::string& bytes = roots.roots();
  for (std::size_t at = 0; at < bytes.size(); at += ChunkRoot::kSize) {
    bundle.roots.push_back(id_of<ChunkRoot>(bytes.substr(at, ChunkRoot::kSize)));
  }
  const std::uint32_t chunks = bundle.record.chunk_count();
  if (bundle.roots.size() > chunks || bundle.have.size() != (chunks + 7) / 8) throw Broken();
  if (bundle.roots.size() < chunks) return;
  adding_ = 0;
  auto has = [&](ChunkIndex chunk) { return (bundle.have[chunk.value() / 8] >> chunk.value() % 8 & 1) != 0; };
  auto file = BundleFile::adopt(bundle.fd, bundle.record, std::move(bundle.roots), has);
  if (!file.ok()) throw Broken();
  bundle.file = std::move(*file);
  numbers_[bundle.id] = bundle.number;
  swarm_->add(bundle.id, bundle.record, bundle.file->roots(), bundle.file, bundle.group);
}

void Child::offer(const wire::SwarmOffer& offer) {
  auto it = bundles_.find(offer.number());
  if (it == bundles_.end() || !it->second.file) throw Broken();
  for (std::uint32_t chunk : offer.chunks()) {
    if (chunk >= it->second.file->chunk_count()) throw Broken();
    it->second.file->mark(ChunkIndex(chunk));
    swarm_->offer(it->second.id, ChunkIndex(chunk));
  }
}

void Child::remove(std::uint32_t number) {
  auto it = bundles_.find(number);
  if (it == bundles_.end() || !it->second.file) throw Broken();
  swarm_->remove(it->second.id);
  numbers_.erase(it->second.id);
  arrived_.erase(number);
  handed_on_.erase(number);
  bundles_.erase(it);
}

void Child::members(const wire::SwarmMembers& members) {
  for (const auto& peer : members.peers()) {
    members_.push_back({id_of<NodeKey>(peer.node()), peer.address(), static_cast<std::uint16_t>(peer.port()), peer.groups()});
  }
  if (members.more()) return;
  swarm_->set_members(std::move(members_));
  members_.clear();
}

// Reports.

std::uint32_t Child::number_of(const BundleId& bundle) const {
  auto it = numbers_.find(bundle);
  return it == numbers_.end() ? 0 : it->second;
}

void Child::tell(ChunksToTell& chunks, const BundleId& bundle, ChunkIndex chunk) {
  const std::uint32_t number = number_of(bundle);
  if (number == 0) return;
  chunks[number].push_back(chunk.value());
  flush_soon();
}

void Child::swarm_chunk_arrived(const BundleId& bundle, ChunkIndex chunk) { tell(arrived_, bundle, chunk); }

void Child::swarm_chunk_handed_on(const BundleId& bundle, ChunkIndex chunk) { tell(handed_on_, bundle, chunk); }

void Child::swarm_peer_blocked(const BundleId& bundle, const std::string& address, const std::string& reason) {
  const std::uint32_t number = number_of(bundle);
  if (number == 0) return;
  wire::SwarmReport report;
  report.mutable_blocked()->set_number(number);
  report.mutable_blocked()->set_address(address);
  report.mutable_blocked()->set_reason(reason.substr(0, ChildLedger::kMaxText));
  note(report);
}

void Child::swarm_failed(const BundleId& bundle, const Error& error) {
  wire::SwarmReport report;
  report.mutable_failed()->set_number(number_of(bundle));
  report.mutable_failed()->set_code(static_cast<std::uint32_t>(error.code));
  report.mutable_failed()->set_message(error.message.substr(0, ChildLedger::kMaxText));
  note(report);
}

void Child::note(const wire::SwarmReport& report) {
  if (notes_.size() >= kMostNotes) return;
  notes_.push_back(report);
  flush_soon();
}

void Child::count() {
  count_.expires_after(kCountPeriod);
  count_.async_wait([this](boost::system::error_code error) {
    if (error) return;
    const SwarmCounters now = swarm_->counters();
    wire::SwarmReport report;
    wire::SwarmCount& out = *report.mutable_count();
    out.set_payload_sent(now.payload_sent);
    out.set_payload_received(now.payload_received);
    out.set_redundant(now.redundant);
    out.set_hash_failures(now.hash_failures);
    out.set_torrents(now.torrents);
    out.set_connections(now.connections);
    out.set_refused_strangers(now.refused_strangers);
    if (!waits_to_write_) send(report);  // the next ones say more
    count();
  });
}

// After what else has been posted by now: chunks that arrive together are reported together.
void Child::flush_soon() {
  if (flush_posted_ || waits_to_write_) return;
  flush_posted_ = true;
  asio::post(io_, [this] {
    flush_posted_ = false;
    flush();
  });
}

template <class Said>
bool Child::flush(ChunksToTell& chunks, Said* (wire::SwarmReport::*said)()) {
  while (!chunks.empty() && !waits_to_write_) {
    auto first = chunks.begin();
    wire::SwarmReport report;
    Said& out = *(report.*said)();
    out.set_number(first->first);
    const auto count = std::min<std::size_t>(kChunksAtOnce, first->second.size());
    for (std::size_t i = 0; i < count; ++i) out.add_chunks(first->second[i]);
    if (!send(report)) return false;
    first->second.erase(first->second.begin(), first->second.begin() + static_cast<std::ptrdiff_t>(count));
    if (first->second.empty()) chunks.erase(first);
  }
  return true;
}

void Child::flush() {
  if (!flush(arrived_, &wire::SwarmReport::mutable_arrived)) return;
  if (!flush(handed_on_, &wire::SwarmReport::mutable_handed_on)) return;
  while (!notes_.empty() && !waits_to_write_) {
    if (!send(notes_.front())) return;
    notes_.pop_front();
  }
}

bool Child::send(const wire::SwarmReport& report) {
  const PacketState state = send_packet(kChildSocket, report.SerializeAsString());
  if (state == PacketState::done) return true;
  if (state == PacketState::ended) {
    io_.stop();
    return false;
  }
  waits_to_write_ = true;
  socket_.async_wait(asio::posix::stream_descriptor::wait_write, [this](boost::system::error_code error) {
    waits_to_write_ = false;
    if (!error) flush();
  });
  return false;
}

}  // namespace

int swarm_child_main(int parent) {
  if (!seal_process(parent, kChildSocket + 1)) return 2;
  prctl(PR_SET_NAME, "p2pwd-swarm");
  Child child;
  const int result = child.run();
  // The daemon is done with us: nothing here is worth an orderly end, which would wait for neighbours.
  _exit(result);
}

bool is_swarm_child(int argc, char** argv, int& parent) {
  if (argc != 3 || std::strcmp(argv[1], kSwarmChildArgument) != 0) return false;
  parent = std::atoi(argv[2]);
  return true;
}

}  // namespace p2pw
