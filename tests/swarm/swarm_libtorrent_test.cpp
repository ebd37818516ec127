#include "daemon/swarm/swarm_libtorrent.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "daemon/swarm/have_gate.h"
#include "protocol/limits.h"
#include "tests/swarm/raw_peer.h"
#include "tests/swarm/swarm_world.h"

namespace p2pw::testing {
namespace {

constexpr std::uint32_t kChunk = 256u << 10;

// Each with libtorrent in this process and in one of its own.
class SwarmTest : public ::testing::TestWithParam<Where> {
 protected:
  TestNode& node(std::uint8_t number, const std::function<void(SwarmOptions&)>& change = {}) {
    nodes_.push_back(std::make_unique<TestNode>(loop_, number, change, GetParam()));
    return *nodes_.back();
  }
  void expect_complete(const std::vector<TestNode*>& nodes, const TestBundle& bundle) {
    EXPECT_TRUE(loop_.run_until([&] {
      return std::all_of(nodes.begin(), nodes.end(), [&](TestNode* n) { return n->complete(bundle); });
    }));
    for (TestNode* n : nodes) {
      EXPECT_EQ(n->used_bytes(bundle), bundle.bytes);
      EXPECT_TRUE(n->failures.empty());
    }
  }
  Result<std::unique_ptr<Swarm>> open(const SwarmOptions& options, SwarmEvents& events) {
    return open_swarm(loop_, SwarmChildOptions{options, kChildProgram}, events, GetParam());
  }
  ControlLoop loop_;
  std::vector<std::unique_ptr<TestNode>> nodes_;
};
INSTANTIATE_TEST_SUITE_P(In, SwarmTest, ::testing::Values(Where::here, Where::child),
                         [](const auto& where) { return where.param == Where::here ? "Here" : "Child"; });

TEST_P(SwarmTest, FourNodesGetWhatOneIsGivenChunkByChunkInRandomOrder) {
  const TestBundle bundle = make_bundle(10 * kChunk - 777, kChunk, 1);
  TestNode &a = node(3), &b = node(1), &c = node(2), &d = node(4);
  introduce({&a, &b, &c, &d});
  for (TestNode* n : {&a, &b, &c, &d}) n->add(bundle);

  auto order = all_chunks(bundle);
  const auto seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  for (std::uint32_t chunk : order) a.put_and_offer(bundle, chunk);

  expect_complete({&a, &b, &c, &d}, bundle);
  const auto once = all_chunks(bundle);
  EXPECT_TRUE(loop_.run_until([&] { return b.arrived[bundle.id].size() == once.size(); }));
  EXPECT_EQ(b.arrived[bundle.id], std::multiset<std::uint32_t>(once.begin(), once.end()));
  EXPECT_TRUE(a.arrived[bundle.id].empty());
}

TEST_P(SwarmTest, AChunkArrivesBeforeTheNextIsOffered) {
  const TestBundle bundle = make_bundle(20 * kChunk, kChunk, 2);
  TestNode &a = node(1), &b = node(2);
  introduce({&a, &b});
  a.add(bundle);
  b.add(bundle);
  for (std::uint32_t chunk = 0; chunk < 20; ++chunk) {
    a.put_and_offer(bundle, chunk);
    ASSERT_TRUE(loop_.run_until([&] { return b.arrived[bundle.id].contains(chunk); }));
  }
  expect_complete({&a, &b}, bundle);
}

TEST_P(SwarmTest, WhoOffersAChunkHearsWhenSomebodyElseHasIt) {
  const TestBundle bundle = make_bundle(4 * kChunk, kChunk, 3);
  TestNode &a = node(1), &b = node(2), &c = node(3);
  introduce({&a, &b, &c});
  a.add(bundle, {3});
  b.add(bundle);
  c.add(bundle);
  ASSERT_TRUE(loop_.run_until([&] { return b.arrived[bundle.id].contains(3) && c.arrived[bundle.id].contains(3); }));
  for (std::uint32_t chunk = 0; chunk < 3; ++chunk) {
    a.put_and_offer(bundle, chunk);
    ASSERT_TRUE(loop_.run_until([&] { return a.handed_on[bundle.id].contains(chunk); }));
  }
  expect_complete({&a, &b, &c}, bundle);
  EXPECT_EQ(a.handed_on[bundle.id], (std::multiset<std::uint32_t>{0, 1, 2})) << "once each";
  EXPECT_TRUE(b.handed_on[bundle.id].empty()) << "it has not been given any over a link";
}

TEST_P(SwarmTest, WhoIsAloneWaitsForNobodyToTakeAChunk) {
  const TestBundle bundle = make_bundle(2 * kChunk, kChunk, 3);
  TestNode& a = node(1);
  a.add(bundle);
  a.put_and_offer(bundle, 1);
  EXPECT_TRUE(loop_.run_until([&] { return a.handed_on[bundle.id].contains(1); }));
}

// As a gateway takes chunks in from far away: it passes each on to a few, and they to the rest.
TEST_P(SwarmTest, AChunkLeavesItsFirstHolderFewTimes) {
  if (GetParam() == Where::child) GTEST_SKIP() << "counts at the moment that it asks; another process answers later";
  constexpr std::uint8_t kNodes = 10;
  constexpr std::uint32_t kChunks = 30;
  const TestBundle bundle = make_bundle(std::uint64_t(kChunks) * kChunk, kChunk, 3);
  std::vector<TestNode*> all;
  for (std::uint8_t i = 1; i <= kNodes; ++i) all.push_back(&node(i));
  introduce(all);
  for (TestNode* n : all) n->add(bundle);
  // Everybody is connected to everybody once a chunk has come to all.
  const auto arrived_everywhere = [&](std::uint32_t chunk) {
    return std::all_of(all.begin() + 1, all.end(), [&](TestNode* n) { return n->arrived[bundle.id].contains(chunk); });
  };
  all[0]->put_and_offer(bundle, 0);
  ASSERT_TRUE(loop_.run_until([&] { return arrived_everywhere(0); }));
  const std::uint64_t before = all[0]->swarm().counters().payload_sent;
  for (std::uint32_t chunk = 1; chunk < kChunks; ++chunk) {
    all[0]->put_and_offer(bundle, chunk);
    ASSERT_TRUE(loop_.run_until([&] { return arrived_everywhere(chunk); }));
  }
  const double copies = static_cast<double>(all[0]->swarm().counters().payload_sent - before) / ((kChunks - 1) * kChunk);
  EXPECT_LE(copies, HaveGate::kFan + 1.5) << "of " << int(kNodes - 1) << " that were needed";
  expect_complete(all, bundle);
}

TEST_P(SwarmTest, OrderOfAddingDoesNotMatter) {
  // Both the side that dials (1) and the side that is dialled (2) may be first.
  for (bool dialler_first : {true, false}) {
    const TestBundle bundle = make_bundle(3 * kChunk, kChunk, dialler_first ? 3 : 4);
    TestNode& a = node(dialler_first ? 1 : 4);
    TestNode& b = node(dialler_first ? 2 : 3);
    introduce({&a, &b});
    a.add(bundle, all_chunks(bundle));
    // Long enough for a dial to be refused.
    const auto refused_until = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
    loop_.run_until([&] { return std::chrono::steady_clock::now() > refused_until; });
    b.add(bundle);
    expect_complete({&a, &b}, bundle);
  }
}

TEST_P(SwarmTest, NodesMayShareAnAddress) {
  const TestBundle bundle = make_bundle(6 * kChunk, kChunk, 18);
  const auto shared = [](SwarmOptions& o) { o.address = TestNode::address_of(100); };
  TestNode &a = node(1, shared), &b = node(2, shared), &c = node(3, shared);
  introduce({&a, &b, &c});
  for (TestNode* n : {&a, &b, &c}) n->add(bundle);
  for (std::uint32_t chunk : all_chunks(bundle)) (chunk % 2 == 0 ? a : c).put_and_offer(bundle, chunk);
  expect_complete({&a, &b, &c}, bundle);
}

TEST_P(SwarmTest, NoConnectionWaitsForFullPackets) {
  if (GetParam() == Where::child) GTEST_SKIP() << "looks at sockets of this process";
  const TestBundle bundle = make_bundle(2 * kChunk, kChunk, 19);
  TestNode &a = node(1), &b = node(2);
  introduce({&a, &b});
  a.add(bundle, all_chunks(bundle));
  b.add(bundle);
  expect_complete({&a, &b}, bundle);
  const auto options = no_delay_of_sockets_between(a.peer().address, b.peer().address);
  EXPECT_EQ(options, (std::vector<bool>{true, true}));  // both ends are in this process
}

TEST_P(SwarmTest, MembersLearntLaterAreDialledForEveryBundle) {
  const TestBundle first = make_bundle(2 * kChunk, kChunk, 5), second = make_bundle(kChunk / 2, kChunk, 6);
  TestNode &a = node(1), &b = node(2), &c = node(3);
  for (TestNode* n : {&a, &b, &c}) {
    n->add(first, n == &a ? all_chunks(first) : std::vector<std::uint32_t>{});
    n->add(second, n == &c ? all_chunks(second) : std::vector<std::uint32_t>{});
  }
  introduce({&a, &b});
  expect_complete({&a, &b}, first);
  introduce({&a, &b, &c});
  expect_complete({&a, &b, &c}, first);
  expect_complete({&a, &b, &c}, second);
}

TEST_P(SwarmTest, OneSideLearnsTheOtherLate) {
  const TestBundle bundle = make_bundle(2 * kChunk, kChunk, 7);
  TestNode &a = node(1), &b = node(2);
  a.swarm().set_members({a.peer(), b.peer()});
  a.add(bundle, all_chunks(bundle));
  b.add(bundle);
  EXPECT_TRUE(loop_.run_until([&] { return b.swarm().counters().refused_strangers > 0; }));
  b.swarm().set_members({a.peer(), b.peer()});
  expect_complete({&a, &b}, bundle);
}

TEST_P(SwarmTest, ARestartedNodeOffersAndFetchesTheRest) {
  const TestBundle bundle = make_bundle(12 * kChunk, kChunk, 8);
  TestNode &a = node(1), &b = node(2);
  introduce({&a, &b});
  a.add(bundle, {0, 1, 2, 3, 4, 5});
  b.add(bundle, {6, 7, 8, 9, 10, 11});
  expect_complete({&a, &b}, bundle);

  b.stop();
  b.restart();
  introduce({&a, &b});
  // The file is opened again: everything is found by hashing and nothing is fetched twice.
  b.arrived.clear();
  b.add(bundle);
  EXPECT_TRUE(b.complete(bundle));
  TestNode& c = node(3);
  introduce({&a, &b, &c});
  c.add(bundle);
  expect_complete({&c}, bundle);
  EXPECT_TRUE(b.arrived[bundle.id].empty());
}

// As after the process of its swarm has ended: nobody tells us, and it is not back before a few dials were refused.
TEST_P(SwarmTest, ANeighbourThatIsAwayForSomeDialsIsDialledWhenItIsBack) {
  const TestBundle bundle = make_bundle(3 * kChunk, kChunk, 20);
  std::uint16_t port = 0;
  {
    TestNode before(loop_, 2);
    port = before.peer().port;
  }
  TestNode& a = node(1);
  const SwarmPeer away{NodeKey{{2}}, TestNode::address_of(2), port};
  a.swarm().set_members({a.peer(), away});
  a.add(bundle);
  // Five dials are refused in the first second.
  const auto refused_until = std::chrono::steady_clock::now() + std::chrono::milliseconds(1200);
  loop_.run_until([&] { return std::chrono::steady_clock::now() > refused_until; });
  TestNode& b = node(2, [&](SwarmOptions& o) { o.port = port; });
  ASSERT_EQ(b.peer(), away);
  b.swarm().set_members({a.peer(), b.peer()});
  b.add(bundle, all_chunks(bundle));
  expect_complete({&a, &b}, bundle);
}

TEST_P(SwarmTest, ANeighbourThatDiesIsReplacedByAnother) {
  const TestBundle bundle = make_bundle(24 * kChunk, kChunk, 9);
  TestNode &a = node(1), &b = node(2), &c = node(3);
  introduce({&a, &b, &c});
  a.add(bundle, all_chunks(bundle));
  c.add(bundle);
  ASSERT_TRUE(loop_.run_until([&] { return !c.arrived[bundle.id].empty(); }));
  a.stop();
  b.add(bundle, all_chunks(bundle));
  expect_complete({&b, &c}, bundle);
}

TEST_P(SwarmTest, BytesThatFailTheirHashAreRefusedAndTheirSenderBlocked) {
  const TestBundle bundle = make_bundle(4 * kChunk, kChunk, 10);
  TestNode &good = node(1), &bad = node(2), &c = node(3);
  introduce({&bad, &c});
  auto file = bad.file(bundle, all_chunks(bundle));
  const Bytes garbage(1000, std::byte{7});
  ASSERT_TRUE(file->write(2 * kChunk + 5000, garbage).ok());
  bad.swarm().add(bundle.id, bundle.record, bundle.roots, file, kEveryGroup);
  c.add(bundle);
  ASSERT_TRUE(loop_.run_until([&] { return !c.blocked.empty(); }));
  EXPECT_EQ(c.blocked[0].first, bundle.id);
  EXPECT_EQ(c.blocked[0].second, bad.peer().address);
  EXPECT_FALSE(c.complete(bundle));
  EXPECT_TRUE(loop_.run_until([&] { return c.swarm().counters().hash_failures >= 1; }));

  introduce({&good, &bad, &c});
  good.add(bundle, all_chunks(bundle));
  expect_complete({&c}, bundle);
  EXPECT_EQ(c.blocked.size(), 1u);
}

TEST_P(SwarmTest, StrangersGetNoAnswer) {
  const TestBundle bundle = make_bundle(2 * kChunk, kChunk, 12);
  TestNode &a = node(1), &b = node(2);
  introduce({&a, &b});
  a.add(bundle, all_chunks(bundle));
  b.add(bundle);
  expect_complete({&a, &b}, bundle);
  const SwarmPeer peer = a.peer();
  const std::string hash = wire_hash(bundle);
  EXPECT_TRUE(answers_handshake(b.peer().address, peer.address, peer.port, hash));
  EXPECT_FALSE(answers_handshake(TestNode::address_of(9), peer.address, peer.port, hash));
  EXPECT_TRUE(loop_.run_until([&] { return a.swarm().counters().refused_strangers > 0; }));
  // Nor does a member that has left.
  a.swarm().set_members({});
  EXPECT_TRUE(loop_.run_until([&] { return a.swarm().counters().connections == 0; }));
  EXPECT_FALSE(answers_handshake(b.peer().address, peer.address, peer.port, hash));
}

TEST_P(SwarmTest, ANeighbourThatOwesBlocksAndStaysSilentIsCutOff) {
  const TestBundle bundle = make_bundle(4 * kChunk, kChunk, 13);
  SilentPeer silent(TestNode::address_of(200));
  TestNode& a = node(1, [](SwarmOptions& o) { o.stall = std::chrono::milliseconds(300); });
  TestNode& b = node(2);
  SwarmPeer hung{{}, TestNode::address_of(200), silent.port()};
  hung.key.data[0] = 200;
  a.swarm().set_members({hung});
  a.add(bundle);
  ASSERT_TRUE(loop_.run_until([&] { return silent.requests() > 0; }));
  EXPECT_TRUE(loop_.run_until([&] { return silent.closed() > 0; }));
  // Everything was asked of the silent one; it is to be had from another all the same.
  a.swarm().set_members({hung, b.peer()});
  b.swarm().set_members({a.peer()});
  b.add(bundle, all_chunks(bundle));
  expect_complete({&a, &b}, bundle);
}

TEST_P(SwarmTest, DropCutsANeighbourAtOnce) {
  const TestBundle bundle = make_bundle(4 * kChunk, kChunk, 14);
  SilentPeer silent(TestNode::address_of(201));
  TestNode& a = node(1, [](SwarmOptions& o) { o.stall = std::chrono::hours(1); });
  SwarmPeer hung{{}, TestNode::address_of(201), silent.port()};
  hung.key.data[0] = 201;
  a.swarm().set_members({hung});
  a.add(bundle);
  ASSERT_TRUE(loop_.run_until([&] { return silent.requests() > 0; }));
  EXPECT_EQ(silent.closed(), 0);
  a.swarm().drop(hung.key);
  EXPECT_TRUE(loop_.run_until([&] { return silent.closed() > 0; }));
}

TEST_P(SwarmTest, GuiltIsFoundEvenWhenAChunkCameFromTwo) {
  // One chunk of many blocks: both neighbours contribute to it, one of them garbage.
  const TestBundle bundle = make_bundle(limits::kMaxChunkBytes, limits::kMaxChunkBytes, 15);
  TestNode &good = node(1), &bad = node(2), &c = node(3);
  auto file = bad.file(bundle, all_chunks(bundle));
  ASSERT_TRUE(file->write(0, Bytes(limits::kMaxChunkBytes, std::byte{9})).ok());
  introduce({&good, &bad, &c});
  good.add(bundle, all_chunks(bundle));
  bad.swarm().add(bundle.id, bundle.record, bundle.roots, file, kEveryGroup);
  c.add(bundle);
  expect_complete({&c}, bundle);
  for (const auto& [id, address] : c.blocked) EXPECT_EQ(address, bad.peer().address);
}

TEST_P(SwarmTest, ALimitIsObeyedBetweenPrivateAddresses) {
  const TestBundle bundle = make_bundle(4 * kChunk, kChunk, 16);
  TestNode& a = node(1, [](SwarmOptions& o) { o.upload_limit = 2'000'000; });
  TestNode& b = node(2);
  introduce({&a, &b});
  const auto start = std::chrono::steady_clock::now();
  a.add(bundle, all_chunks(bundle));
  b.add(bundle);
  expect_complete({&b}, bundle);
  // A lower bound, which a busy machine cannot break: 1 MiB at 2 MB/s; without a limit it takes a few
  // milliseconds.
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(250));
}

TEST_P(SwarmTest, HashMessagesEndTheConnection) {
  const TestBundle bundle = make_bundle(4 * kChunk, kChunk, 17);
  TestNode &a = node(1), &b = node(2);
  introduce({&a, &b});
  a.add(bundle, all_chunks(bundle));
  ASSERT_TRUE(loop_.run_until([&] { return a.swarm().counters().torrents == 1; }));
  const SwarmPeer peer = a.peer();
  for (char message : {char(21), char(22), char(23)}) {
    // For all blocks of the first chunk: pieces root, base layer, index, length, proof layers.
    std::string body(1, message);
    body += bundle.record.pieces_root.text();
    body += std::string(
        "\0\0\0\0"
        "\0\0\0\0"
        "\0\0\0\x10"
        "\0\0\0\6",
        16);
    EXPECT_TRUE(closes_on(b.peer().address, peer.address, peer.port, wire_hash(bundle), body))
        << int(message);
  }
  b.add(bundle);
  expect_complete({&b}, bundle);
}

TEST_P(SwarmTest, ManySmallBundles) {
  std::vector<TestBundle> bundles;
  for (std::uint32_t i = 0; i < 200; ++i) bundles.push_back(make_bundle(30'000 + i, 64u << 10, 1000 + i));
  TestNode &a = node(1), &b = node(2), &c = node(3);
  introduce({&a, &b, &c});
  for (const TestBundle& bundle : bundles) {
    a.add(bundle, {0});
    b.add(bundle);
    c.add(bundle);
  }
  for (const TestBundle& bundle : bundles) expect_complete({&a, &b, &c}, bundle);
  for (const TestBundle& bundle : bundles) {
    for (TestNode* n : {&a, &b, &c}) n->swarm().remove(bundle.id);
  }
  EXPECT_TRUE(loop_.run_until(
      [&] { return a.swarm().counters().torrents == 0 && a.swarm().counters().connections == 0; }));
}

TEST_P(SwarmTest, ChunksOfEverySizeIncludingTheSmallest) {
  TestNode &a = node(1), &b = node(2);
  introduce({&a, &b});
  std::uint32_t seed = 50;
  for (std::uint32_t chunk : {limits::kMinChunkBytes, 128u << 10, limits::kMaxChunkBytes}) {
    for (std::uint64_t used : {std::uint64_t(1), std::uint64_t(chunk), std::uint64_t(chunk) * 3 - 1}) {
      const TestBundle bundle = make_bundle(used, chunk, seed++);
      a.add(bundle, all_chunks(bundle));
      b.add(bundle);
      expect_complete({&b}, bundle);
    }
  }
}

TEST_P(SwarmTest, AddressThatIsNotOursIsAnError) {
  TestNode& a = node(1);
  SwarmOptions options;
  options.address = "192.0.2.1";
  auto swarm = open(options, a);
  ASSERT_FALSE(swarm.ok());
  EXPECT_EQ(swarm.error().code, ErrorCode::io);
  options.address = "nonsense";
  EXPECT_EQ(open(options, a).error().code, ErrorCode::config);
}

TEST_P(SwarmTest, ATakenPortIsAnError) {
  TestNode& a = node(1);
  SwarmOptions options;
  options.address = a.peer().address;
  options.port = a.peer().port;
  auto swarm = open(options, a);
  ASSERT_FALSE(swarm.ok());
  EXPECT_EQ(swarm.error().code, ErrorCode::busy);
}

TEST_P(SwarmTest, RootsThatDoNotMatchTheRecordFailTheBundle) {
  TestBundle bundle = make_bundle(3 * kChunk, kChunk, 11);
  TestNode& a = node(1);
  auto file = a.file(bundle);
  std::swap(bundle.roots[0], bundle.roots[1]);
  a.swarm().add(bundle.id, bundle.record, bundle.roots, file, kEveryGroup);
  ASSERT_TRUE(loop_.run_until([&] { return !a.failures.empty(); }));
  EXPECT_EQ(a.failures[0].code, ErrorCode::integrity);
}

}  // namespace
}  // namespace p2pw::testing
