#include "daemon/swarm/neighbours.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace p2pw {
namespace {

using namespace std::chrono_literals;

NodeKey key(std::uint8_t number) {
  NodeKey k;
  k.data[0] = number;
  return k;
}

SwarmPeer peer(std::uint8_t number, std::string address = "10.0.0.1", std::uint16_t port = 100) {
  return {key(number), std::move(address), port, kEveryGroup};
}

TEST(Neighbours, TellsWhoJoinedAndWhoLeft) {
  Neighbours neighbours(key(5));
  auto change = neighbours.set({peer(9), peer(1), peer(5), peer(1)});
  EXPECT_EQ(change.joined, (std::vector{peer(1), peer(9)}));
  EXPECT_TRUE(change.left.empty());
  EXPECT_EQ(neighbours.all().size(), 2u);

  change = neighbours.set({peer(9), peer(2)});
  EXPECT_EQ(change.joined, std::vector{peer(2)});
  EXPECT_EQ(change.left, std::vector{peer(1)});
}

TEST(Neighbours, AMoveIsLeavingAndJoining) {
  Neighbours neighbours(key(5));
  neighbours.set({peer(1, "10.0.0.1")});
  auto change = neighbours.set({peer(1, "10.0.0.2")});
  EXPECT_EQ(change.joined, std::vector{peer(1, "10.0.0.2")});
  EXPECT_EQ(change.left, std::vector{peer(1, "10.0.0.1")});
}

// Who is connected to whom when all of `count` nodes know each other: dialler -> dialled.
std::map<NodeKey, std::set<NodeKey>> dials(std::uint32_t count, const BundleId& bundle, std::uint32_t strangers = 0) {
  std::vector<SwarmPeer> all;
  std::mt19937_64 random(count);
  for (std::uint32_t i = 0; i < count + strangers; ++i) {
    SwarmPeer one{{}, "10.0.0.1", static_cast<std::uint16_t>(i + 1), i < count ? SwarmGroups{3} : SwarmGroups{2}};
    for (auto& byte : one.key.data) byte = static_cast<std::uint8_t>(random());
    all.push_back(one);
  }
  std::map<NodeKey, std::set<NodeKey>> found;
  for (const SwarmPeer& one : all) {
    if (one.groups == 2) continue;
    Neighbours neighbours(one.key);
    neighbours.set(all);
    found[one.key];
    for (const SwarmPeer& other : neighbours.to_dial(bundle, 1)) found[one.key].insert(other.key);
  }
  return found;
}

TEST(Neighbours, OfTwoAtMostOneDials) {
  for (std::uint32_t count : {2u, 5u, 24u, 25u, 60u}) {
    auto found = dials(count, BundleId());
    for (const auto& [a, others] : found) {
      for (const NodeKey& b : others) EXPECT_FALSE(found[b].contains(a)) << count;
      EXPECT_FALSE(others.contains(a));
    }
  }
}

TEST(Neighbours, ASmallRegionIsAMesh) {
  auto found = dials(24, BundleId());
  std::size_t connections = 0;
  for (const auto& [a, others] : found) connections += others.size();
  EXPECT_EQ(connections, 24u * 23 / 2);
}

TEST(Neighbours, ALargeRegionIsConnectedInFewHopsByFewConnections) {
  auto found = dials(500, BundleId());
  std::map<NodeKey, std::set<NodeKey>> both;
  for (const auto& [a, others] : found) {
    EXPECT_LE(others.size(), Neighbours::kRings);
    for (const NodeKey& b : others) {
      both[a].insert(b);
      both[b].insert(a);
    }
  }
  for (const auto& [a, others] : both) {
    EXPECT_GE(others.size(), 8u);
    EXPECT_LE(others.size(), 2 * Neighbours::kRings);
  }
  std::set<NodeKey> reached{both.begin()->first};
  int hops = 0;
  for (; reached.size() < both.size() && hops < 10; ++hops) {
    std::set<NodeKey> more = reached;
    for (const NodeKey& a : reached) more.insert(both[a].begin(), both[a].end());
    reached = std::move(more);
  }
  EXPECT_LE(hops, 4);
}

// Followers of a channel that most nodes of a large region do not follow are as well connected as if they were alone.
TEST(Neighbours, OnlyThoseThatShareABundleAreDialled) {
  for (std::uint32_t count : {10u, 60u}) {
    auto found = dials(count, BundleId(), 400);
    EXPECT_EQ(found.size(), count) << "a stranger is dialled";
    std::map<NodeKey, std::set<NodeKey>> both;
    for (const auto& [a, others] : found) {
      for (const NodeKey& b : others) both[a].insert(b), both[b].insert(a);
    }
    for (const auto& [a, others] : both) EXPECT_GE(others.size(), std::min<std::size_t>(count - 1, 8));
  }
}

TEST(Neighbours, EachBundleHasItsOwnGraph) {
  BundleId other;
  other.data[0] = 1;
  EXPECT_NE(dials(60, BundleId()), dials(60, other));
}

TEST(Neighbours, FindsByKeyAndByAddress) {
  Neighbours neighbours(key(5));
  neighbours.set({peer(1, "10.0.0.1", 7), peer(2, "10.0.0.1", 8), peer(3, "10.0.0.3", 7)});
  EXPECT_EQ(*neighbours.find(key(2)), peer(2, "10.0.0.1", 8));
  EXPECT_EQ(neighbours.find(key(4)), nullptr);
  EXPECT_EQ(*neighbours.find("10.0.0.1", 7), peer(1, "10.0.0.1", 7));
  EXPECT_EQ(neighbours.find("10.0.0.3", 8), nullptr);
  EXPECT_EQ(neighbours.at("10.0.0.1").size(), 2u);
  EXPECT_TRUE(neighbours.knows("10.0.0.3"));
  EXPECT_FALSE(neighbours.knows("10.0.0.4"));
}

TEST(DialTimer, WaitsGrowAndThenEndUntilThereIsANewReason) {
  DialTimer timer;
  auto now = DialTimer::Clock::time_point() + 1h;
  auto wait = DialTimer::kFirst;
  int dials = 0;
  while (true) {
    timer.plan(now);
    if (!timer.at()) break;
    EXPECT_EQ(*timer.at(), now + wait);
    EXPECT_FALSE(timer.due(now));
    now += wait;
    EXPECT_TRUE(timer.due(now));
    EXPECT_FALSE(timer.due(now));
    wait *= DialTimer::kGrowth;
    ASSERT_LT(++dials, 20);
  }
  EXPECT_EQ(dials, 4);
  timer.restart();
  timer.plan(now);
  EXPECT_EQ(*timer.at(), now + DialTimer::kFirst);
}

TEST(DialTimer, APlannedDialIsNotPutOff) {
  DialTimer timer;
  const auto now = DialTimer::Clock::time_point() + 1h;
  timer.plan(now);
  timer.plan(now + 3ms);
  EXPECT_EQ(*timer.at(), now + DialTimer::kFirst);
}

TEST(Owed, StallsOnlyWhenSomethingIsOwedAndNothingComes) {
  Owed owed;
  auto now = Owed::Clock::time_point() + 1h;
  EXPECT_FALSE(owed.stalled(now, 0s));
  owed.requested(now);
  owed.requested(now);
  EXPECT_FALSE(owed.stalled(now + 1s, 2s));
  EXPECT_TRUE(owed.stalled(now + 2s, 2s));
  owed.answered(now + 2s);
  EXPECT_FALSE(owed.stalled(now + 3s, 2s));
  EXPECT_TRUE(owed.stalled(now + 4s, 2s));
  owed.answered(now + 4s);
  EXPECT_FALSE(owed.stalled(now + 1h, 2s));
  // The clock begins when something is owed again, not with the last answer.
  owed.requested(now + 1h);
  EXPECT_FALSE(owed.stalled(now + 1h + 1s, 2s));
  owed.excuse(now + 2h);
  EXPECT_FALSE(owed.stalled(now + 2h + 1s, 2s));
  owed.cleared();
  EXPECT_FALSE(owed.stalled(now + 3h, 2s));
}

}  // namespace
}  // namespace p2pw
