#include "cli/top_frame.h"

#include <gtest/gtest.h>

#include "cli/fleet_text.h"
#include "cli/timeline_text.h"

namespace p2pw {
namespace {

api::StatusReply large_fleet() {
  api::StatusReply status;
  status.name = "trainer";
  status.region = "us-east";
  status.role = "trainer";
  status.now_ms = 1'700'000'000'000;
  api::ChannelStatus& channel = status.channels.emplace_back();
  channel.channel = "policy";
  channel.version_sealed = 12;
  channel.step = 1200;
  for (int r = 0; r < 20; ++r) {
    for (int n = 0; n < 10; ++n) {
      api::NodeStatus& node = status.nodes.emplace_back();
      node.channel = "policy";
      node.region = "a-region-with-a-long-name-" + std::to_string(r);
      node.name = "a-node-with-a-name-that-is-far-too-long-" + std::to_string(n);
      node.version_staged = node.version_active = n == 3 ? 11 : 12;
      node.state = n == 3 ? "fetching" : "idle";
      node.lag_seconds = n == 3 ? 100 + r : 0;
      node.why = n == 3 ? "receiving version 12, \033[31m 40 % applied" : "";
    }
    api::LinkStatus& link = status.links.emplace_back();
    link.node = std::string(64, static_cast<char>('a' + r));
    link.region = "a-region-with-a-long-name-" + std::to_string(r);
    link.payload_sent = 1'000'000;
  }
  return status;
}

TEST(Top, FitsIntoAnyTerminalAndShowsTheWorstFirst) {
  api::StatusReply now = large_fleet();
  for (auto [width, height] : {std::pair<std::size_t, std::size_t>{80, 24}, {40, 10}, {200, 60}, {1, 1}}) {
    auto lines = top_frame(now, nullptr, width, height);
    EXPECT_LE(lines.size(), height);
    for (const std::string& line : lines) {
      EXPECT_LE(line.size(), width);
      for (char c : line) EXPECT_GE(static_cast<unsigned char>(c), 0x20) << "no control characters of a peer's words";
    }
  }
  auto lines = top_frame(now, nullptr, 80, 24);
  std::string all;
  for (const std::string& line : lines) all += line + "\n";
  EXPECT_NE(all.find("version 12 (step 1200)"), std::string::npos) << all;
  EXPECT_NE(all.find("active on 180 of 200"), std::string::npos) << all;
  EXPECT_NE(all.find("fetching"), std::string::npos) << all;
  EXPECT_NE(all.find("1 min 59 s"), std::string::npos) << "the slowest node: " << all;
}

TEST(Top, RatesAreThoseSinceThePictureBefore) {
  api::StatusReply before = large_fleet(), now = before;
  now.now_ms += 2000;
  now.links[0].payload_sent += 50'000'000;  // 200 Mbit/s
  std::string all;
  for (const std::string& line : top_frame(now, &before, 80, 40)) all += line + "\n";
  EXPECT_NE(all.find("200 Mbit/s"), std::string::npos) << all;
}

TEST(FleetText, RegionsAreSummedUp) {
  api::StatusReply status = large_fleet();
  status.nodes[0].state = "offline";
  auto regions = by_region(status);
  ASSERT_EQ(regions.size(), 20u);
  const RegionSummary& first = regions.front();
  EXPECT_EQ(first.nodes, 10u);
  EXPECT_EQ(first.offline, 1u);
  EXPECT_EQ(first.active, 8u);
  ASSERT_NE(first.slowest, nullptr);
  EXPECT_TRUE(needs_attention(newest_versions(status), *first.slowest));
}

TEST(TimelineText, ShowsTheWayToTheLastNode) {
  api::TimelineReply timeline;
  timeline.channel = "policy";
  timeline.version = 7;
  timeline.clock = "trainer";
  timeline.seconds = 4;
  timeline.nodes.push_back({"k", "n1", "eu", false, {{"first_byte", 1, 1}, {"active", 4, 4}}});
  timeline.regions.push_back({"eu", 1, {{"first_byte", 1, 1}, {"active", 4, 4}}});
  timeline.path = {{"to this node", "n1", "eu", 0, 1, false}, {"receiving", "n1", "eu", 1, 3, true}};
  std::string text = timeline_text(timeline);
  EXPECT_NE(text.find("the way to the last node, n1, in 4.000 s"), std::string::npos) << text;
  EXPECT_NE(text.find("......##################  receiving"), std::string::npos) << text;
}

}  // namespace
}  // namespace p2pw
