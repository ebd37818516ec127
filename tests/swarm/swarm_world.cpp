#include "tests/swarm/swarm_world.h"

#include <numeric>

#include "protocol/hash.h"

namespace p2pw::testing {

bool ControlLoop::run_until(const std::function<bool()>& done, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!done()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    // Counters change without an event, so look again now and then.
    io_->run_one_for(std::chrono::milliseconds(5));
  }
  return true;
}

TestBundle make_bundle(std::uint64_t used_bytes, std::uint32_t chunk_bytes, std::uint32_t seed) {
  TestBundle bundle;
  bundle.record.version = Version(1);
  bundle.record.index = BundleIndex(seed);
  bundle.record.used_bytes = used_bytes;
  bundle.record.chunk_bytes = chunk_bytes;
  bundle.bytes.resize(used_bytes);
  std::mt19937_64 random(seed);
  for (std::byte& byte : bundle.bytes) byte = static_cast<std::byte>(random());
  for (std::uint32_t i = 0; i < bundle.record.chunk_count(); ++i) {
    bundle.roots.push_back(chunk_root(bundle.chunk(i), chunk_bytes));
  }
  bundle.record.pieces_root = pieces_root(bundle.roots, chunk_bytes);
  bundle.id.data = sha256(as_bytes("bundle " + std::to_string(seed))).data;
  return bundle;
}

Result<std::unique_ptr<Swarm>> open_swarm(ControlLoop& loop, const SwarmChildOptions& options, SwarmEvents& events,
                                          Where where) {
  if (where == Where::child) return open_child_swarm(loop.io(), options, events);
  return open_libtorrent_swarm(options.swarm, events, loop.poster());
}

TestNode::TestNode(ControlLoop& loop, std::uint8_t number, const std::function<void(SwarmOptions&)>& change,
                   Where where)
    : loop_(loop), where_(where) {
  options_.program = kChildProgram;
  options_.swarm.self.data[0] = number;
  options_.swarm.address = address_of(number);
  if (change) change(options_.swarm);
  restart();
}

TestNode::~TestNode() {
  stop();
}

std::string TestNode::address_of(std::uint8_t number) {
  // Per process, so that test programs that run side by side do not meet.
  static const unsigned net = 1 + static_cast<unsigned>(getpid()) % 250;
  return "127.77." + std::to_string(net) + "." + std::to_string(number);
}

void TestNode::restart() {
  stop();
  auto swarm = open_swarm(loop_, options_, *this, where_);
  ASSERT_TRUE(swarm.ok()) << swarm.error().message;
  swarm_ = std::move(*swarm);
}

std::shared_ptr<BundleFile> TestNode::file(const TestBundle& bundle, const std::vector<std::uint32_t>& have) {
  auto file = BundleFile::open(dir_ / bundle.id.hex(), bundle.record, bundle.roots);
  EXPECT_TRUE(file.ok()) << file.error().message;
  for (std::uint32_t chunk : have) EXPECT_TRUE((*file)->put(ChunkIndex(chunk), bundle.chunk(chunk)).ok());
  files_[bundle.id] = *file;
  return *file;
}

void TestNode::add(const TestBundle& bundle, const std::vector<std::uint32_t>& have) {
  swarm_->add(bundle.id, bundle.record, bundle.roots, file(bundle, have), kEveryGroup);
}

void TestNode::put_and_offer(const TestBundle& bundle, std::uint32_t chunk) {
  ASSERT_TRUE(files_.at(bundle.id)->put(ChunkIndex(chunk), bundle.chunk(chunk)).ok());
  swarm_->offer(bundle.id, ChunkIndex(chunk));
}

bool TestNode::complete(const TestBundle& bundle) const {
  return files_.at(bundle.id)->complete();
}

Bytes TestNode::used_bytes(const TestBundle& bundle) const {
  Bytes bytes(bundle.record.used_bytes);
  EXPECT_TRUE(files_.at(bundle.id)->read(0, bytes).ok());
  return bytes;
}

void TestNode::swarm_chunk_arrived(const BundleId& bundle, ChunkIndex chunk) {
  EXPECT_TRUE(files_.at(bundle)->has(chunk));
  arrived[bundle].insert(chunk.value());
  if (on_arrived) on_arrived(chunk);
}

void TestNode::swarm_peer_blocked(const BundleId& bundle, const std::string& address, const std::string& reason) {
  blocked.emplace_back(bundle, address);
  reasons.push_back(reason);
}

void TestNode::swarm_failed(const BundleId&, const Error& error) {
  failures.push_back(error);
}

void introduce(const std::vector<TestNode*>& nodes) {
  std::vector<SwarmPeer> peers;
  for (TestNode* node : nodes) peers.push_back(node->peer());
  for (TestNode* node : nodes) node->swarm().set_members(peers);
}

std::vector<std::uint32_t> all_chunks(const TestBundle& bundle) {
  std::vector<std::uint32_t> chunks(bundle.roots.size());
  std::iota(chunks.begin(), chunks.end(), 0);
  return chunks;
}

}  // namespace p2pw::testing
