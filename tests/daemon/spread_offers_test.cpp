// What is offered to nodes that have no use for it, or do not know yet: an empty region that starts from a newer anchor
// than its upstreams still hold.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/spread_sim.h"

namespace p2pw::testing {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kChunk = 256 << 10;
constexpr std::uint32_t kChunks = 64;

class SpreadOffersTest : public ::testing::Test {
 protected:
  SpreadOffersTest() {
    sim.access("trainer", 200e6, 0ms);
    sim.access("r1", 200e6, 43ms);
    sim.access("r3", 200e6, 72ms);
    sim.add_node("home", true);
    sim.add_node("r1");
    sim.run_for(200ms);
    for (std::uint32_t i = 0; i < 4; ++i) bundles.push_back(sim.publish(kChunks, kChunk, 1 + i));
  }
  void SetUp() override {
    ASSERT_TRUE(sim.run_until([&] { return each([&](auto& b) { return sim.complete(b); }); }, 60s));
    sim.run_for(3s);
  }
  bool each(const std::function<bool(const BundleId&)>& is_so) {
    return std::all_of(bundles.begin(), bundles.end(), is_so);
  }
  // A node of a region that has none; it has yet to decide about all that was published.
  SpreadSim::Node& join() {
    return sim.add_node("r3", false, {}, {bundles.begin(), bundles.end()});
  }
  void wants_none(SpreadSim::Node& node) {
    for (const BundleId& bundle : bundles) sim.decide(node, bundle, false);
  }
  static bool has_all(const SpreadSim::Node& node, const BundleId& bundle) {
    const ChunkSet* held = node.spread.held(bundle);
    return held != nullptr && held->full();
  }
  std::size_t declines() {
    std::size_t count = 0;
    for (auto& node : sim.nodes()) {
      count += static_cast<std::size_t>(
          std::ranges::count_if(node->notes, [](const std::string& note) { return note.ends_with("not wanted"); }));
    }
    return count;
  }
  std::uint64_t sent(const BundleId& bundle) const { return sim.bytes_into("r3", bundle); }
  static constexpr std::uint64_t kBundle = std::uint64_t(kChunks) * kChunk;

  SpreadSim sim;
  std::vector<BundleId> bundles;
};

TEST_F(SpreadOffersTest, WhatIsNotWantedIsNotSentAndWhatIsComesAsOneCopyWithoutAStall) {
  SpreadSim::Node& node = join();
  sim.run_for(600ms);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(sent(bundles[i]), 0u) << i;
  for (std::size_t i = 0; i < 4; ++i) sim.decide(node, bundles[i], i >= 2);
  // The offers that came meanwhile count: nobody waits until the node asks by itself.
  EXPECT_TRUE(sim.run_until([&] { return has_all(node, bundles[2]) && has_all(node, bundles[3]); }, 3s));
  sim.run_for(20s);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(sent(bundles[i]), i >= 2 ? kBundle : 0) << i;
  EXPECT_EQ(sim.stalls(), 0u);
}

TEST_F(SpreadOffersTest, WhoDecidesLateStallsNobodyAndAsksByItself) {
  SpreadSim::Node& node = join();
  sim.run_for(10s);
  EXPECT_EQ(sim.stalls(), 0u);
  for (std::size_t i = 0; i < 4; ++i) sim.decide(node, bundles[i], i == 3);
  EXPECT_TRUE(sim.run_until([&] { return has_all(node, bundles[3]); }, 20s));
  sim.run_for(20s);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(sent(bundles[i]), i == 3 ? kBundle : 0) << i;
  EXPECT_EQ(sim.stalls(), 0u);
}

TEST_F(SpreadOffersTest, WhatWasDeclinedIsHadForTheAskingWhenItIsNeededAfterAll) {
  SpreadSim::Node& node = join();
  sim.run_for(600ms);
  wants_none(node);
  sim.run_for(30s);
  for (const BundleId& bundle : bundles) ASSERT_EQ(sent(bundle), 0u);
  sim.decide(node, bundles[0], true);
  EXPECT_TRUE(sim.run_until([&] { return has_all(node, bundles[0]); }, 20s));
  EXPECT_EQ(sent(bundles[0]), kBundle);
}

TEST_F(SpreadOffersTest, WhatOneNodeHasNoUseForIsOfferedToTheNextOfItsRegion) {
  SpreadSim::Node &a = join(), &b = join();
  sim.run_for(600ms);
  // Each is the gateway of some of them.
  for (std::size_t i = 0; i < 4; ++i) sim.decide(a, bundles[i], i < 2), sim.decide(b, bundles[i], i >= 2);
  EXPECT_TRUE(sim.run_until(
      [&] {
        return has_all(a, bundles[0]) && has_all(a, bundles[1]) && has_all(b, bundles[2]) && has_all(b, bundles[3]);
      },
      4s));
  for (const BundleId& bundle : bundles) EXPECT_EQ(sent(bundle), kBundle);
  EXPECT_EQ(sim.stalls(), 0u);
}

TEST_F(SpreadOffersTest, ADeclinedBundleIsNotOfferedAtEveryChangeOfMembers) {
  SpreadSim::Node& node = join();
  sim.run_for(600ms);
  wants_none(node);
  sim.run_for(3s);
  const std::size_t before = sim.grants_into("r3");
  EXPECT_GE(before, bundles.size());
  for (int i = 0; i < 20; ++i) {
    SpreadSim::Node& passing = sim.add_node("r1");
    sim.run_for(1s);
    sim.kill(passing);
    sim.run_for(500ms);
  }
  EXPECT_EQ(sim.grants_into("r3"), before);
  sim.run_for(60s);
  sim.add_node("r1");
  sim.run_for(3s);
  EXPECT_GT(sim.grants_into("r3"), before) << "now and then it is";
  for (const BundleId& bundle : bundles) EXPECT_EQ(sent(bundle), 0u);
}

TEST_F(SpreadOffersTest, WhoDeclinedAndIsGoneLeavesItToTheNext) {
  SpreadSim::Node& first = join();
  sim.run_for(600ms);
  wants_none(first);
  sim.run_for(3s);
  sim.kill(first);
  sim.run_for(1s);
  SpreadSim::Node& second = join();
  sim.run_for(200ms);
  sim.decide(second, bundles[1], true);
  EXPECT_TRUE(sim.run_until([&] { return has_all(second, bundles[1]); }, 3s));
  EXPECT_EQ(sent(bundles[1]), kBundle);
}

TEST_F(SpreadOffersTest, ABundleThatIsGivenUpInTheMiddleIsNotSentOn) {
  SpreadSim::Node& node = join();
  sim.decide(node, bundles[0], true);
  ASSERT_TRUE(sim.run_until([&] { return node.spread.held(bundles[0])->count() >= kChunks / 4; }, 20s));
  node.spread.forget(bundles[0]);
  wants_none(node);
  sim.run_for(150ms);  // for the news to get there
  const std::uint64_t then = sent(bundles[0]);
  EXPECT_LT(then, kBundle);
  sim.run_for(30s);
  EXPECT_EQ(sent(bundles[0]), then);
  EXPECT_EQ(sim.stalls(), 0u);
}

// Its record is late; to decline it would leave the region without.
TEST_F(SpreadOffersTest, AFreshBundleIsNotDeclinedForBeingUnknown) {
  SpreadSim::Node& node = join();
  sim.run_for(600ms);
  wants_none(node);
  sim.run_for(3s);
  bundles.push_back(sim.publish(kChunks, kChunk, 9));
  node.undecided.insert(bundles.back());
  const std::size_t before = declines();
  sim.run_for(1800ms);  // less than its upstream has patience for
  EXPECT_EQ(declines(), before);
}

}  // namespace
}  // namespace p2pw::testing
