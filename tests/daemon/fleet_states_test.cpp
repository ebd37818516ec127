#include "daemon/core/fleet_states.h"

#include <gtest/gtest.h>

namespace p2pw {
namespace {

NodeKey key_of(std::uint8_t n) {
  NodeKey key;
  key.data[0] = n;
  return key;
}

std::vector<Member> members_of(int count) {
  std::vector<Member> members;
  for (int i = 1; i <= count; ++i) {
    Member m;
    m.key = key_of(static_cast<std::uint8_t>(i));
    m.region = Region::parse(i % 2 ? "odd" : "even").value();
    members.push_back(m);
  }
  return members;
}

wire::NodeState report(std::uint8_t n, std::uint64_t staged, std::uint64_t at_ms) {
  wire::NodeState state;
  state.set_node(std::string(key_of(n).text()));
  state.set_channel("policy");
  state.set_region(n % 2 ? "odd" : "even");
  state.set_version_staged(staged);
  state.set_state("idle");
  state.set_at_ms(at_ms);
  return state;
}

TEST(FleetStates, PassesOnWhatIsNewAtOnceAndTheRestOnceAMinute) {
  FleetStates states;
  auto members = members_of(3);
  EXPECT_TRUE(states.hear(report(1, 5, 1000), members));
  EXPECT_EQ(states.take_changes().size(), 1u);
  EXPECT_FALSE(states.hear(report(1, 5, 6000), members)) << "nothing new";
  EXPECT_TRUE(states.take_changes().empty());
  EXPECT_TRUE(states.hear(report(1, 6, 7000), members));
  EXPECT_EQ(states.take_changes().size(), 1u);
  EXPECT_FALSE(states.hear(report(1, 6, 66'999), members));
  EXPECT_TRUE(states.take_changes().empty());
  EXPECT_FALSE(states.hear(report(1, 6, 67'000), members));
  EXPECT_EQ(states.take_changes().size(), 1u) << "a sign of life";
}

TEST(FleetStates, IgnoresOldNewsAndStrangers) {
  FleetStates states;
  auto members = members_of(3);
  EXPECT_TRUE(states.hear(report(2, 5, 1000), members));
  EXPECT_FALSE(states.hear(report(2, 4, 1000), members));
  EXPECT_FALSE(states.hear(report(9, 5, 1000), members));
  ASSERT_EQ(states.all().size(), 1u);
  EXPECT_EQ(states.all()[0].version_staged(), 5u);
}

TEST(FleetStates, WhoComesBackIsNews) {
  FleetStates states;
  auto members = members_of(2);
  states.set_members(members);
  states.hear(report(1, 5, 1000), members);
  states.take_changes();
  states.set_members(members_of(0));
  EXPECT_EQ(states.all()[0].state(), "offline");
  states.set_members(members);
  EXPECT_EQ(states.all()[0].state(), "idle");
}

TEST(FleetStates, WhoHasGivenUpAChannelIsNoLongerWaitedFor) {
  FleetStates states;
  auto members = members_of(2);
  states.set_members(members);
  auto channel = Channel::parse("policy").value();
  for (int n : {1, 2}) states.hear(report(static_cast<std::uint8_t>(n), 7, 1000), members);
  EXPECT_EQ(states.incomplete_regions(channel, Version(8)).size(), 2u);
  members[0].follows = Follows({Channel::parse("other").value()});
  states.set_members(members);
  EXPECT_EQ(states.incomplete_regions(channel, Version(8)).size(), 1u);
  EXPECT_EQ(states.live_followers(channel), std::vector{members[1].key});
  EXPECT_EQ(states.all().size(), 1u);
}

TEST(FleetStates, ARegionIsIncompleteUntilOneOfItsNodesHasTheVersion) {
  FleetStates states;
  auto members = members_of(4);
  states.set_members(members);
  for (int n : {1, 2, 3, 4}) states.hear(report(static_cast<std::uint8_t>(n), n == 2 ? 8 : 7, 1000), members);
  auto channel = Channel::parse("policy").value();
  auto lacking = states.incomplete_regions(channel, Version(8));
  ASSERT_EQ(lacking.size(), 1u);
  EXPECT_EQ(lacking[0].str(), "odd");
  EXPECT_TRUE(states.incomplete_regions(channel, Version(7)).empty());
}

TEST(FleetStates, ARegionThatTakesItsFirstCopyHoldsUpNobodyElse) {
  FleetStates states;
  auto members = members_of(4);
  states.set_members(members);
  auto channel = Channel::parse("policy").value();
  for (int n : {1, 2, 3, 4}) states.hear(report(static_cast<std::uint8_t>(n), 0, 1000), members);
  EXPECT_EQ(states.incomplete_regions(channel, Version(1)).size(), 2u) << "a fleet that begins";
  states.hear(report(1, 1, 2000), members);
  EXPECT_TRUE(states.incomplete_regions(channel, Version(1)).empty()) << "even is only joining";
  EXPECT_EQ(states.incomplete_regions(channel, Version(2)).size(), 1u);
  states.hear(report(2, 1, 3000), members);
  EXPECT_EQ(states.incomplete_regions(channel, Version(2)).size(), 2u) << "from its first version on it counts";
}

}  // namespace
}  // namespace p2pw
