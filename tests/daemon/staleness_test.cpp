#include "daemon/core/staleness.h"

#include <gtest/gtest.h>

#include "daemon/core/hot_load.h"

namespace p2pw {
namespace {

TEST(Staleness, CountsByVersionsAndTakesQuantilesOverTheKnown) {
  std::vector<NodeLag> nodes;
  for (int i = 0; i < 17; ++i) nodes.push_back({"policy", false, 0, 0});
  nodes.push_back({"policy", false, 1, 2});
  nodes.push_back({"policy", false, 2, 5});
  nodes.push_back({"policy", false, 9, 60});
  nodes.push_back({"policy", true, 0, 0});
  nodes.push_back({"other", true, 0, 0});
  auto all = staleness_of(nodes);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].channel, "other");
  EXPECT_EQ(all[0].nodes, 1u);
  EXPECT_EQ(all[0].seconds_max, 0);
  const api::Staleness& s = all[1];
  EXPECT_EQ(s.nodes, 21u);
  EXPECT_EQ(s.current, 17u);
  EXPECT_EQ(s.behind_1, 1u);
  EXPECT_EQ(s.behind_2, 1u);
  EXPECT_EQ(s.behind_more, 1u);
  EXPECT_EQ(s.unknown, 1u);
  EXPECT_EQ(s.seconds_median, 0);
  EXPECT_EQ(s.seconds_p95, 5);
  EXPECT_EQ(s.seconds_max, 60);
}

TEST(HotLoad, AnIdentityEndsWithItsNumber) {
  EXPECT_EQ(number_of_identity("7"), 7u);
  EXPECT_EQ(number_of_identity("weight_v000012"), 12u);
  EXPECT_EQ(number_of_identity("step-0"), 0u);
  for (const char* bad : {"", "base", "a/7", "7b", "9999999999999999999"}) EXPECT_FALSE(number_of_identity(bad)) << bad;
  EXPECT_EQ(hot_load_stage("idle"), "done");
  EXPECT_EQ(hot_load_stage("unknown"), "error");
  EXPECT_EQ(hot_load_stage("fetching"), "downloading");
}

}  // namespace
}  // namespace p2pw
