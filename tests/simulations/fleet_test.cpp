#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "simulations/src/fleet/baselines.h"
#include "simulations/src/fleet/control.h"
#include "simulations/src/fleet/lab.h"
#include "simulations/src/fleet/network.h"
#include "simulations/src/fleet/p2pw_run.h"

namespace p2pw::fleet {
namespace {

std::string json_of(const Scenario& scenario, std::uint64_t seed) {
  Outcome outcome = P2pwRun(scenario, seed).run();
  return to_json(scenario, outcome, summarize(scenario, outcome), seed);
}

Scenario small(std::size_t regions, std::size_t nodes) {
  Scenario s = *find_scenario("slow-region");
  s.regions.resize(1);
  for (std::size_t i = 0; i < regions; ++i) {
    s.regions.push_back({"r" + std::to_string(i + 1), nodes, mbit(1000), mbit(1000), 0.02 + 0.01 * static_cast<double>(i)});
  }
  s.delta_bytes = 256 * kMiB;
  s.checkpoint_bytes = 32 * kGiB;
  s.versions = 3;
  s.interval = 20;
  return s;
}

TEST(FleetNetwork, FlowsShareALinkFairlyAndTakeWhatOthersLeave) {
  Network network;
  auto wide = network.add_link(100), narrow = network.add_link(20);
  auto a = network.add_flow({{wide}, {narrow}}), b = network.add_flow({{wide}}), c = network.add_flow({{wide}, {narrow}});
  for (auto flow : {a, b, c}) network.push(flow, flow, 1000);
  network.allocate();
  EXPECT_DOUBLE_EQ(network.rate(a), 10);
  EXPECT_DOUBLE_EQ(network.rate(c), 10);
  EXPECT_DOUBLE_EQ(network.rate(b), 80);
}

TEST(FleetNetwork, AFlowThatWantsLittleLeavesTheRest) {
  Network network;
  auto link = network.add_link(100);
  auto small_flow = network.add_flow({{link}}), large = network.add_flow({{link}});
  network.push(small_flow, 1, 5);
  network.push(large, 2, 1000);
  std::vector<Network::Done> done;
  network.step(1, done);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].tag, 1u);
  EXPECT_DOUBLE_EQ(network.rate(large), 95);
}

TEST(FleetNetwork, AWeightLoadsALinkManyTimes) {
  Network network;
  auto link = network.add_link(100);
  auto heavy = network.add_flow({{link, 4}}), light = network.add_flow({{link, 1}});
  network.push(heavy, 1, 1e6);
  network.push(light, 2, 1e6);
  network.allocate();
  EXPECT_DOUBLE_EQ(network.rate(heavy), 20);
  EXPECT_DOUBLE_EQ(network.rate(light), 20);
}

TEST(FleetNetwork, WhatIsCutAndHasNotBegunNeverArrives) {
  Network network;
  auto flow = network.add_flow({{network.add_link(10)}});
  for (std::uint64_t tag : {1, 2, 3}) network.push(flow, tag, 10);
  std::vector<Network::Done> done;
  network.step(0.5, done);
  EXPECT_DOUBLE_EQ(network.cut(flow, [](std::uint64_t tag) { return tag != 3; }), 10);
  network.step(10, done);
  ASSERT_EQ(done.size(), 2u);  // the first had begun
  EXPECT_EQ(done[0].tag, 1u);
  EXPECT_EQ(done[1].tag, 3u);
  EXPECT_TRUE(network.idle());
}

TEST(Fleet, SameSeedSameResult) {
  Scenario s = small(4, 40);
  s.deaths_per_hour = 20;  // many in this minute
  s.slow_nic_share = 0.1;
  std::string first = json_of(s, 7);
  EXPECT_EQ(first, json_of(s, 7));
  EXPECT_NE(first, json_of(s, 8));
  for (const std::string& strategy : strategy_names()) {
    if (strategy == "p2pw") continue;
    Outcome one = run_baseline(s, strategy, 7, false), two = run_baseline(s, strategy, 7, false);
    EXPECT_EQ(to_json(s, one, summarize(s, one), 7), to_json(s, two, summarize(s, two), 7)) << strategy;
  }
}

TEST(Fleet, UndisturbedOneCopyIntoEachRegionAndOutOfTheTrainer) {
  for (const char* name : {"wan-2x3", "blog-1tib"}) {
    Scenario s = *find_scenario(name);
    s.versions = std::min<std::size_t>(s.versions, 3);
    Outcome outcome = P2pwRun(s, 1).run();
    Summary sum = summarize(s, outcome);
    EXPECT_NEAR(sum.trainer_copies, 1, 1e-6) << name;
    for (auto& region : sum.regions) EXPECT_NEAR(region.copies, 1, 1e-6) << name << " " << region.name;
    EXPECT_LE(sum.last_node_seconds, 1.10 * sum.bound_seconds) << name;
    EXPECT_GE(sum.last_node_seconds, s.delta_bytes / s.regions[1].down) << name;
  }
}

TEST(Fleet, AKilledGatewayCostsLittle) {
  Scenario s = small(3, 20);
  s.versions = 1;
  P2pwRun run(s, 3);
  run.kill_gateway_at(1.5, 2);
  Outcome outcome = run.run();
  Summary sum = summarize(s, outcome);
  EXPECT_EQ(outcome.deaths, 1u);
  EXPECT_GT(outcome.gateway_changes, 0u);
  EXPECT_GT(outcome.lost_bytes, 0.0);
  for (auto& region : sum.regions) EXPECT_LT(region.copies, 1.05) << region.name;
  EXPECT_LT(sum.last_node_seconds, 1.3 * sum.bound_seconds + 2);
}

TEST(Fleet, ChurnLosesNoVersion) {
  Scenario s = small(4, 60);
  s.deaths_per_hour = 30;
  s.versions = 4;
  Outcome outcome = P2pwRun(s, 5).run();
  EXPECT_GT(outcome.deaths, 50u);
  std::size_t counted = 0;
  for (const NodeTimes& node : outcome.nodes) {
    for (float t : node.staged_after) counted += t >= 0;
  }
  EXPECT_GT(counted, 3u * 240u / 2);
  EXPECT_LT(summarize(s, outcome).cross_region_copies, 1.1);
}

TEST(Fleet, EveryStrategyMovesTheSameBytes) {
  Scenario s = small(4, 40);
  Outcome ours = P2pwRun(s, 1).run();
  for (const std::string& strategy : strategy_names()) {
    if (strategy == "p2pw") continue;
    Outcome theirs = run_baseline(s, strategy, 1, false);
    EXPECT_NEAR(theirs.bytes_moved_per_version, ours.bytes_moved_per_version, 2) << strategy;
    EXPECT_GE(summarize(s, theirs).cross_region_copies, 1.0) << strategy;
  }
}

TEST(Fleet, ASlowRegionKeepsOnlyItselfWaiting) {
  Scenario s = *find_scenario("slow-region");
  s.versions = 2;
  Summary sum = [&] {
    Outcome outcome = P2pwRun(s, 1).run();
    return summarize(s, outcome);
  }();
  for (auto& region : sum.regions) {
    if (region.name == "r4") continue;
    EXPECT_LT(region.last_node_seconds, 0.3 * sum.last_node_seconds) << region.name;
  }
}

// A run of simulations/lab on real daemons, recorded; the simulation gets that machine's rates and CPU costs and must say
// when the last node was done.
TEST(Fleet, AgreesWithTheLab) {
  std::ifstream file(P2PW_TEST_DATA "/fleet/lab-wan-2x3.json");
  std::stringstream text;
  text << file.rdbuf();
  auto lab = read_lab_run(text.str());
  ASSERT_TRUE(lab.ok()) << lab.error().message;
  Scenario s = as_in_lab(*find_scenario(lab->scenario), *lab, 2);
  Outcome outcome = P2pwRun(s, 1).run();
  Summary sum = summarize(s, outcome);
  EXPECT_NEAR(sum.last_node_seconds / lab->last_node_seconds, 1, 0.10);
  EXPECT_NEAR(sum.trainer_copies, lab->trainer_copies, 0.005);
  for (auto& region : sum.regions) EXPECT_NEAR(region.copies, lab->copies.at(region.name), 0.005) << region.name;
}

TEST(Fleet, ALabRunThatLacksSomethingIsRefused) {
  EXPECT_FALSE(read_lab_run("").ok());
  EXPECT_FALSE(read_lab_run("{}").ok());
  EXPECT_FALSE(read_lab_run(R"({"scenario": 3})").ok());
}

TEST(FleetControl, AnOrdinaryNodePaysLittleMoreInALargeFleet) {
  double last = 0;
  for (std::size_t nodes : {50u, 500u, 5000u}) {
    ControlCosts costs = control_costs(ControlSetting{.nodes = nodes}, 1);
    if (last > 0) {
      EXPECT_LT(costs.node.total(), 1.3 * last) << nodes;
    }
    last = costs.node.total();
  }
}

}  // namespace
}  // namespace p2pw::fleet
