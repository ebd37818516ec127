#include "daemon/core/link_plan.h"

#include <gtest/gtest.h>

namespace p2pw {
namespace {

Region region(const std::string& name) { return Region::parse(name).value(); }

Member member(std::uint8_t id, const std::string& where, bool bootstrap = false, bool trainer = false) {
  Member m;
  m.key.data[0] = id;
  m.region = region(where);
  m.bootstrap = bootstrap;
  m.trainer = trainer;
  return m;
}

struct Fleet {
  std::vector<Member> members;
  std::vector<Channel> channels{Channel::parse("policy").value()};
  explicit Fleet(int nodes) {
    members.push_back(member(1, "home", true, true));
    for (int i = 0; i < nodes; ++i) {
      members.push_back(member(static_cast<std::uint8_t>(10 + i), "eu", i == 0));
      members.push_back(member(static_cast<std::uint8_t>(110 + i), "us", i == 0));
    }
  }
  LinkPlan plan(std::size_t i) const { return plan_links(members[i], members, channels, 4); }
};

TEST(LinkPlan, LinksGrowWithRegionsNotWithNodes) {
  Fleet small(10), large(90);
  // The trainer: candidates and, where it is none of them, the bootstrap daemon of each region.
  EXPECT_GE(small.plan(0).peers.size(), 2u * 4);
  EXPECT_LE(large.plan(0).peers.size(), 2u * 5);
  std::size_t plain = 0;
  for (std::size_t i = 1; i < large.members.size(); ++i) {
    auto plan = large.plan(i);
    EXPECT_FALSE(plan.needs_configured);
    if (plan.peers.size() > 5) continue;
    ++plain;
    for (auto& m : large.members) {
      if (!plan.peers.contains(m.key)) continue;
      EXPECT_EQ(m.region, large.members[i].region);
    }
  }
  EXPECT_GE(plain, 2u * 90 - 10);
}

TEST(LinkPlan, GatewaysOfAChannelAreAmongItsFollowers) {
  const Channel policy = Channel::parse("policy").value(), critic = Channel::parse("critic").value();
  Fleet fleet(20);
  for (Member& m : fleet.members) m.follows = Follows({policy});
  fleet.members[0].follows = Follows({policy, critic});
  Member& follower = fleet.members[15];
  follower.follows = Follows({critic});
  ASSERT_FALSE(follower.bootstrap);
  EXPECT_FALSE(fleet.plan(0).peers.contains(follower.key)) << "not for policy";
  auto plan = [&](const Member& self) { return plan_links(self, fleet.members, self.follows.listed(), 4); };
  EXPECT_TRUE(plan(fleet.members[0]).peers.contains(follower.key));
  EXPECT_TRUE(plan(follower).peers.contains(fleet.members[0].key)) << "its channel comes from there";
}

TEST(LinkPlan, WithoutARegionalBootstrapTheConfiguredAddressIsNeeded) {
  Fleet fleet(3);
  fleet.members.push_back(member(250, "asia"));
  auto plan = fleet.plan(fleet.members.size() - 1);
  EXPECT_TRUE(plan.needs_configured);
  EXPECT_TRUE(plan.peers.contains(fleet.members[0].key));  // sole node of its region: its gateway, so links far
}

TEST(LinkPlan, ABootstrapDaemonThatKnowsNoOtherLooksForTheFleet) {
  Fleet fleet(2);
  const Member self = fleet.members[1];
  ASSERT_TRUE(self.bootstrap);
  EXPECT_FALSE(plan_links(self, fleet.members, fleet.channels, 4).needs_configured);
  // Its region's others are there, the trainer and the other region are not.
  std::vector<Member> region;
  for (const Member& m : fleet.members) {
    if (m.region == self.region) region.push_back(m);
  }
  EXPECT_TRUE(plan_links(self, region, fleet.channels, 4).needs_configured);
}

TEST(LinkPlan, BothEndsOfALinkAcrossRegionsWantIt) {
  Fleet fleet(40);
  for (std::size_t i = 0; i < fleet.members.size(); ++i) {
    for (std::size_t j = 0; j < fleet.members.size(); ++j) {
      if (fleet.members[i].region == fleet.members[j].region) continue;
      EXPECT_EQ(fleet.plan(i).peers.contains(fleet.members[j].key), fleet.plan(j).peers.contains(fleet.members[i].key));
    }
  }
}

}  // namespace
}  // namespace p2pw
