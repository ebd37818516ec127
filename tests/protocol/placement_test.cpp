#include "protocol/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "protocol/hash.h"
#include "tests/protocol/make_records.h"

namespace p2pw {
namespace {

using namespace p2pw::testing;

NodeKey node(int n) {
  NodeKey key;
  key.data = sha256(as_bytes("node " + std::to_string(n))).data;
  return key;
}
BundlePlace bundle(int run, std::uint32_t index = 0) {
  BundlePlace place{channel(), RunId(), BundleIndex(index)};
  place.run.data = sha256(as_bytes("run " + std::to_string(run))).data;
  return place;
}
Member member(int n, std::string_view in) {
  return {node(n), region(in)};
}

std::vector<Member> fleet(int regions, int nodes) {
  std::vector<Member> members;
  for (int i = 0; i < regions * nodes; ++i) members.push_back(member(i, "r" + std::to_string(i % regions)));
  members.push_back({node(-1), region("r0"), true});
  return members;
}

TEST(Placement, CandidatesAreRolloutNodesOfTheRegion) {
  const auto members = fleet(3, 10);
  const auto candidates = gateway_candidates(channel(), region("r1"), members);
  ASSERT_EQ(candidates.size(), kGatewayCandidates);
  for (const NodeKey& key : candidates) {
    const auto found = std::ranges::find(members, key, &Member::key);
    ASSERT_NE(found, members.end());
    EXPECT_EQ(found->region, region("r1"));
  }
  EXPECT_EQ(gateway_candidates(channel(), region("r0"), members, 100).size(), 10u)
      << "the trainer takes no part";
  EXPECT_TRUE(gateway_candidates(channel(), region("nowhere"), members).empty());
}

TEST(Placement, WhoDoesNotFollowTheChannelTakesNoPart) {
  auto members = fleet(3, 10);
  for (Member& m : members) m.follows = Follows({channel("other")});
  EXPECT_TRUE(gateway_candidates(channel(), region("r1"), members).empty());
  EXPECT_TRUE(region_order(bundle(1), region("r0"), members).empty());
  Member& follower = *std::ranges::find(members, region("r1"), &Member::region);
  follower.follows = Follows({channel("other"), channel()});
  EXPECT_EQ(gateway_candidates(channel(), region("r1"), members), std::vector{follower.key});
  EXPECT_EQ(gateway_succession(bundle(1), region("r1"), members), std::vector{follower.key});
  EXPECT_EQ(region_order(bundle(1), region("r0"), members), std::vector{region("r1")});
  EXPECT_EQ(gateway_candidates(channel("other"), region("r1"), members, 100).size(), 10u);
}

TEST(Placement, OrderOfTheMembersDoesNotMatter) {
  auto members = fleet(3, 10);
  const auto candidates = gateway_candidates(channel(), region("r2"), members);
  const auto succession = gateway_succession(bundle(1), region("r2"), members);
  const auto order = region_order(bundle(1), region("r0"), members);
  std::reverse(members.begin(), members.end());
  EXPECT_EQ(gateway_candidates(channel(), region("r2"), members), candidates);
  EXPECT_EQ(gateway_succession(bundle(1), region("r2"), members), succession);
  EXPECT_EQ(region_order(bundle(1), region("r0"), members), order);
}

// Fixed for ever: two builds that disagree would each send a copy.
TEST(Placement, KnownAnswers) {
  const auto members = fleet(3, 4);
  const auto succession = gateway_succession(bundle(1), region("r1"), members);
  std::string text;
  for (const NodeKey& key : succession) text += key.short_hex() + " ";
  for (const Region& r : region_order(bundle(1), region("r2"), members)) text += r.str() + " ";
  EXPECT_EQ(text, "320c7161 179c4b4e 5b4758eb db4eb995 r2 r1 r0 ");
}

TEST(Placement, BundlesOfARunGoRoundTheCandidates) {
  const auto members = fleet(2, 20);
  auto candidates = gateway_candidates(channel(), region("r0"), members);
  std::sort(candidates.begin(), candidates.end());
  for (int run = 0; run < 50; ++run) {
    const auto first = gateway_succession(bundle(run, 0), region("r0"), members);
    auto sorted = first;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(sorted, candidates);
    for (std::uint32_t index = 0; index < 9; ++index) {
      auto expected = first;
      std::rotate(expected.begin(), expected.begin() + index % 4, expected.end());
      EXPECT_EQ(gateway_succession(bundle(run, index), region("r0"), members), expected);
    }
  }
}

// Small versions find warm connections.
TEST(Placement, EveryRunBeginsWithTheSameCandidate) {
  const auto members = fleet(2, 20);
  const auto candidates = gateway_candidates(channel(), region("r0"), members);
  for (int run = 0; run < 50; ++run) EXPECT_EQ(gateway_succession(bundle(run), region("r0"), members), candidates);
}

// Who leaves changes nothing in the order of those that stay, so its first successor takes over.
TEST(Placement, ALostMemberLeavesTheOrderOfTheOthers) {
  const auto before = fleet(1, 4);
  for (int gone = 0; gone < 4; ++gone) {
    auto after = before;
    std::erase_if(after, [&](const Member& m) { return m.key == node(gone); });
    for (int run = 0; run < 100; ++run) {
      auto expected = gateway_succession(bundle(run), region("r0"), before);
      std::erase(expected, node(gone));
      EXPECT_EQ(gateway_succession(bundle(run), region("r0"), after), expected);
    }
  }
}

TEST(Placement, RemovingACandidateBringsInOneNewcomer) {
  const auto members = fleet(1, 50);
  const auto before = gateway_candidates(channel(), region("r0"), members);
  for (const NodeKey& gone : before) {
    auto fewer = members;
    std::erase_if(fewer, [&](const Member& m) { return m.key == gone; });
    const auto after = gateway_candidates(channel(), region("r0"), fewer);
    ASSERT_EQ(after.size(), before.size());
    for (const NodeKey& kept : before) {
      EXPECT_TRUE(kept == gone || std::ranges::count(after, kept));
    }
  }
  auto fewer = members;
  std::erase_if(fewer, [&](const Member& m) {
    return !m.trainer && !std::ranges::count(before, m.key) && m.key != node(3);
  });
  EXPECT_EQ(gateway_candidates(channel(), region("r0"), fewer), before) << "others do not matter";
}

TEST(Placement, ChannelsHaveDifferentCandidates) {
  const auto members = fleet(1, 50);
  EXPECT_NE(gateway_candidates(channel("a"), region("r0"), members),
            gateway_candidates(channel("b"), region("r0"), members));
}

TEST(Placement, SuspectsComeLastAndKeepTheirPlaceAmongCandidates) {
  auto members = fleet(1, 20);
  const auto candidates = gateway_candidates(channel(), region("r0"), members);
  const auto succession = gateway_succession(bundle(1), region("r0"), members);
  std::ranges::find(members, succession[0], &Member::key)->suspect = true;
  EXPECT_EQ(gateway_candidates(channel(), region("r0"), members), candidates);
  auto expected = succession;
  std::rotate(expected.begin(), expected.begin() + 1, expected.end());
  EXPECT_EQ(gateway_succession(bundle(1), region("r0"), members), expected);
}

TEST(Placement, RegionsStartWithTheHomeRegionAndAreShared) {
  const auto members = fleet(5, 3);
  std::map<Region, int> second;
  for (int i = 0; i < 400; ++i) {
    const auto order = region_order(bundle(i), region("r3"), members);
    ASSERT_EQ(order.size(), 5u);
    EXPECT_EQ(order[0], region("r3"));
    ++second[order[1]];
  }
  EXPECT_EQ(second.size(), 4u);
  for (const auto& [r, count] : second) EXPECT_NEAR(count, 100, 40) << r.str();
  EXPECT_EQ(region_order(bundle(1), region("elsewhere"), members).size(), 5u)
      << "a home without nodes is not visited";
  EXPECT_TRUE(region_order(bundle(1), region("r0"), {}).empty());
}

TEST(Placement, SlowRegionsComeLastFasterOnesFirst) {
  auto members = fleet(6, 3);
  for (Member& m : members) {
    m.wan_mbit = 1000;
    if (m.region == region("r2")) m.wan_mbit = 100;
    if (m.region == region("r4")) m.wan_mbit = 50;
    if (m.region == region("r5")) m.wan_mbit = 600;  // not slow: more than half
  }
  std::map<Region, int> first;
  for (int i = 0; i < 200; ++i) {
    const auto order = region_order(bundle(i), region("r0"), members);
    ASSERT_EQ(order.size(), 6u);
    EXPECT_EQ(order[0], region("r0"));
    EXPECT_EQ(order[4], region("r2"));
    EXPECT_EQ(order[5], region("r4"));
    ++first[order[1]];
  }
  EXPECT_EQ(first.size(), 3u) << "the others still take turns";
}

TEST(Placement, ARegionIsAsFastAsItsLeastMemberStatesAndUnlimitedWhenNobodyDoes) {
  auto members = fleet(4, 3);
  const auto before = region_order(bundle(1), region("r0"), members);
  for (Member& m : members) m.wan_mbit = 1000;
  EXPECT_EQ(region_order(bundle(1), region("r0"), members), before) << "equal rates change nothing";
  for (Member& m : members) m.wan_mbit = 0;
  const Region slow = before[1];
  std::ranges::find(members, slow, &Member::region)->wan_mbit = 100;
  EXPECT_EQ(region_order(bundle(1), region("r0"), members).back(), slow);
}

std::vector<Region> regions(int count) {
  std::vector<Region> out;
  for (int i = 0; i < count; ++i) out.push_back(region("r" + std::to_string(i)));
  return out;
}

TEST(RelayTree, Shapes) {
  EXPECT_EQ(relay_tree(regions(4), {1, 1}).parent, (std::vector<std::int32_t>{-1, 0, 1, 2})) << "a chain";
  EXPECT_EQ(relay_tree(regions(7), {1, 2}).parent, (std::vector<std::int32_t>{-1, 0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(relay_tree(regions(6), {2, 2}).parent, (std::vector<std::int32_t>{-1, -1, 0, 0, 1, 1}));
  EXPECT_EQ(relay_tree(regions(3), {9, 1}).parent, (std::vector<std::int32_t>{-1, -1, -1})) << "a star";
  EXPECT_EQ(relay_tree(regions(3), {1, 0}).parent, (std::vector<std::int32_t>{-1, -1, -1}));
  EXPECT_EQ(relay_tree(regions(2), {0, 1}).parent, (std::vector<std::int32_t>{-1, 0}))
      << "somebody must feed it";
  EXPECT_TRUE(relay_tree({}, {1, 1}).parent.empty());
}

TEST(RelayTree, Questions) {
  const RelayTree tree = relay_tree(regions(6), {2, 2});
  EXPECT_EQ(tree.children_of(-1), (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(tree.children_of(0), (std::vector<std::size_t>{2, 3}));
  EXPECT_TRUE(tree.children_of(5).empty());
  EXPECT_EQ(tree.index_of(region("r4")), 4);
  EXPECT_EQ(tree.index_of(region("nowhere")), -2);
}

}  // namespace
}  // namespace p2pw
