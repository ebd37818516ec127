#include "daemon/core/timeline.h"

#include <gtest/gtest.h>

#include "daemon/core/event_log.h"
#include "daemon/core/fleet_states.h"
#include "daemon/core/node_reports.h"

namespace p2pw {
namespace {

constexpr std::uint64_t kStart = 1'700'000'000'000'000;
std::uint64_t at(double seconds) { return kStart + static_cast<std::uint64_t>(seconds * 1e6); }

TimelineSource trainer() {
  return {"t", "trainer", "us", true, {{"requested", at(0)}, {"opened", at(0.1)}, {"first_bundle", at(0.5)}, {"sealed", at(2)}, {"staged", at(2.1)}, {"active", at(2.1)}}};
}
TimelineSource node(const std::string& name, const std::string& region, double first, double last, double staged, double active) {
  return {name, name, region, false, {{"first_byte", at(first)}, {"last_byte", at(last)}, {"staged", at(staged)}, {"active", at(active)}}};
}

double seconds_of(const std::vector<api::StageMoment>& stages, const std::string& stage) {
  for (const api::StageMoment& m : stages) {
    if (m.stage == stage) return m.seconds;
  }
  return -1;
}

TEST(Timeline, SumsUpRegionsAndPointsOutTheLongestStepToTheLastNode) {
  api::TimelineReply reply;
  fill_timeline({trainer(), node("a", "eu", 0.6, 2.5, 2.6, 2.7), node("b", "eu", 0.7, 9, 9.5, 9.6), node("c", "asia", 0.9, 3, 3.1, 3.2)}, reply);
  EXPECT_EQ(reply.start_us, kStart);
  EXPECT_NEAR(reply.seconds, 9.6, 1e-6);
  ASSERT_EQ(reply.nodes.size(), 4u);
  EXPECT_TRUE(reply.nodes.front().trainer);
  ASSERT_EQ(reply.regions.size(), 2u);
  EXPECT_EQ(reply.regions[1].region, "eu");
  EXPECT_EQ(reply.regions[1].nodes, 2u);
  EXPECT_NEAR(seconds_of(reply.regions[1].stages, "first_byte"), 0.6, 1e-6);  // of the first node
  EXPECT_NEAR(seconds_of(reply.regions[1].stages, "active"), 9.6, 1e-6);      // of the last one

  ASSERT_FALSE(reply.path.empty());
  double sum = 0, end = 0;
  std::string longest;
  for (const api::PathStep& step : reply.path) {
    EXPECT_NEAR(step.from_seconds, end, 1e-6) << step.what << ": the steps follow on each other";
    end = step.from_seconds + step.seconds;
    sum += step.seconds;
    if (step.longest) longest = step.what;
  }
  EXPECT_NEAR(sum, 9.6, 1e-6);
  EXPECT_EQ(longest, "receiving");
  EXPECT_EQ(reply.path.back().node, "b");
}

TEST(Timeline, IsEmptyWhenNothingIsKnownAndTakesWhatThereIs) {
  api::TimelineReply reply;
  fill_timeline({}, reply);
  EXPECT_TRUE(reply.nodes.empty());
  fill_timeline({{"a", "a", "eu", false, {{"first_byte", at(1)}}}}, reply);
  EXPECT_EQ(reply.nodes.size(), 1u);
  EXPECT_TRUE(reply.path.empty());
}

TEST(Timeline, ClocksThatDisagreeALittleMakeNoNegativeStep) {
  api::TimelineReply reply;
  fill_timeline({trainer(), node("a", "eu", 0.49, 1.9, 1.95, 1.96)}, reply);  // before its first bundle was signed
  for (const api::PathStep& step : reply.path) EXPECT_GE(step.seconds, 0) << step.what;
}

class FleetTimes : public ::testing::Test {
 protected:
  wire::NodeState state(std::uint64_t version, std::uint64_t at_ms) {
    wire::NodeState s;
    s.set_node(std::string(key.text()));
    s.set_channel("policy");
    s.set_region("eu");
    s.set_name("a");
    s.set_at_ms(at_ms);
    auto* time = s.add_times();
    time->set_version(version);
    time->set_stage("staged");
    time->set_at_us(at(1));
    return s;
  }
  NodeKey key = NodeKey::from_hex(std::string(64, '1')).value();
  Channel channel = Channel::parse("policy").value();
  std::vector<Member> members{Member{.key = key, .region = Region::parse("eu").value()}};
  FleetStates states;
};

TEST_F(FleetTimes, TimesOutliveTheStateThatBroughtThem) {
  ASSERT_TRUE(states.hear(state(7, 1), members));
  wire::NodeState later = state(8, 2);
  later.clear_times();
  ASSERT_TRUE(states.hear(later, members));
  auto stages = states.stages(channel, Version(7));
  ASSERT_EQ(stages.size(), 1u);
  EXPECT_EQ(stages[key].stages.at("staged"), at(1));
  EXPECT_TRUE(states.stages(channel, Version(8)).empty());
}

TEST_F(FleetTimes, KeepsTheLastVersionsOnlyAndFewStages) {
  for (std::uint64_t v = 1; v <= 100; ++v) states.hear(state(v, v), members);
  EXPECT_TRUE(states.stages(channel, Version(36)).empty());
  EXPECT_FALSE(states.stages(channel, Version(37)).empty());
  wire::NodeState flood = state(100, 1000);
  for (int i = 0; i < 1000; ++i) {
    auto* time = flood.add_times();
    time->set_version(100);
    time->set_stage("made up " + std::to_string(i));
  }
  states.hear(flood, members);
  EXPECT_LE(states.stages(channel, Version(100))[key].stages.size(), 16u);
}

TEST(WhyBehind, NamesTheReason) {
  wire::NodeState s;
  s.set_version_active(6);
  s.set_version_staged(6);
  s.set_state("fetching");
  s.set_percent(40);
  EXPECT_EQ(why_behind(s, Version(6), 0, 0), "");
  EXPECT_EQ(why_behind(s, Version(7), 1, 0), "receiving version 7, 40 % applied");
  EXPECT_NE(why_behind(s, Version(7), 20, 2).find("its own network or disk is slow"), std::string::npos);
  EXPECT_NE(why_behind(s, Version(7), 20, 0).find("the way there is slow or cut"), std::string::npos);
  s.set_problem("no space left");
  EXPECT_EQ(why_behind(s, Version(7), 20, 0), "no space left");
  s.set_state("offline");
  EXPECT_NE(why_behind(s, Version(7), 20, 0).find("not heard of"), std::string::npos);
}

TEST(EventLog, BeginsWithTheNewestOfAChannel) {
  EventLog log([] { return WallTime(std::chrono::milliseconds(5)); }, 10);
  EXPECT_EQ(log.before_newest(3, ""), 0u);
  Channel a = Channel::parse("a").value(), b = Channel::parse("b").value();
  for (int i = 0; i < 12; ++i) log.add(i % 3 == 0 ? a : b, "event", Version(), "");  // a: 1, 4, 7, 10; 1 and 2 are lost
  EXPECT_EQ(log.after(log.before_newest(3, ""), "", 100).entries.front().id, 10u);
  auto of_a = log.after(log.before_newest(2, "a"), "a", 100);
  ASSERT_EQ(of_a.entries.size(), 2u);
  EXPECT_EQ(of_a.entries[0].id, 7u);
  EXPECT_EQ(log.after(log.before_newest(100, "a"), "a", 100).entries.size(), 3u);
  EXPECT_EQ(log.before_newest(0, ""), 12u);
}

TEST(EventLog, TellsWhatIsLostAndWhoseIdsTheseAre) {
  std::uint64_t now = 1000;
  EventLog log([&] { return WallTime(std::chrono::milliseconds(now)); }, 10);
  Channel a = Channel::parse("a").value(), b = Channel::parse("b").value();
  for (int i = 0; i < 25; ++i) log.add(i % 2 ? a : b, "event", Version(), "");
  api::LogReply reply = log.after(5, "", 100);
  EXPECT_EQ(reply.lost, 10u);  // 6 to 15
  EXPECT_EQ(reply.first, 16u);
  EXPECT_EQ(reply.entries.size(), 10u);
  EXPECT_EQ(reply.next, 25u);
  reply = log.after(20, "a", 100);
  EXPECT_EQ(reply.lost, 0u);
  EXPECT_EQ(reply.entries.size(), 2u);
  EXPECT_EQ(reply.next, 25u) << "what another channel's filter left out is read, too";
  EXPECT_EQ(log.after(25, "", 100, 1000).entries.size(), 0u);
  EXPECT_EQ(log.after(25, "", 100, 999).entries.size(), 10u) << "an id of an earlier start means nothing here";
  EXPECT_EQ(log.after(25, "", 100).run, 1000u);
}

}  // namespace
}  // namespace p2pw
