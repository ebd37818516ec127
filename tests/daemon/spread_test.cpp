#include "daemon/spread/spread.h"

#include <gtest/gtest.h>

#include "tests/support/spread_sim.h"

namespace p2pw::testing {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kChunk = 256 << 10;

// Trainer without delay, two regions of three nodes at 43 and 72 ms, 200 Mbit/s each.
struct TwoRegions {
  SpreadSim sim;
  std::vector<BundleId> bundles;

  explicit TwoRegions(std::size_t nodes = 3, SpreadOptions options = {}) : sim(options) {
    sim.access("trainer", 200e6, 0ms);
    sim.access("r1", 200e6, 43ms);
    sim.access("r2", 200e6, 72ms);
    sim.add_node("home", true);
    for (std::size_t i = 0; i < nodes; ++i) sim.add_node("r1"), sim.add_node("r2");
    sim.run_for(200ms);
  }
  void publish(int count, std::uint32_t chunks) {
    for (int i = 0; i < count; ++i) bundles.push_back(sim.publish(chunks, kChunk, 1, static_cast<std::uint32_t>(i)));
  }
  bool complete() {
    return std::all_of(bundles.begin(), bundles.end(), [&](auto& b) { return sim.complete(b); });
  }
  double bytes() const { return static_cast<double>(bundles.size()) * 128 * kChunk; }
  double bound() const { return bytes() * 8 / 200e6 + 0.158; }
  double held_share(const std::string& region) {
    double held = 0, all = 0;
    for (auto& b : bundles) {
      double most = 0;
      for (auto& n : sim.nodes()) {
        const ChunkSet* set = n->spread.held(b);
        if (n->region() == region && set) most = std::max<double>(most, set->count());
      }
      held += most;
      all += 128;
    }
    return held / all;
  }
};

Channel named(const char* name) { return Channel::parse(name).value(); }

TEST(Spread, OnlyFollowersOfItsChannelTakePartInABundle) {
  SpreadSim sim;
  for (const char* where : {"trainer", "r1", "r2"}) sim.access(where, 200e6, 43ms);
  sim.add_node("home", true);
  for (int i = 0; i < 5; ++i) {
    sim.add_node("r1", false, Follows({named("policy")}));
    sim.add_node("r2", false, Follows({named("policy")}));
  }
  auto& follower = sim.add_node("r1", false, Follows({named("critic"), named("policy")}));
  sim.run_for(200ms);
  const double begin = sim.seconds();
  const BundleId bundle = sim.publish(16, kChunk, 1, 0, "critic");
  ASSERT_TRUE(sim.run_until([&] { return sim.complete(bundle); }, 60s));
  EXPECT_LT(sim.seconds() - begin, 1.0) << "somebody else was tried first";
  EXPECT_EQ(sim.gateway_of(bundle, "r1"), &follower);
  EXPECT_EQ(sim.copies_into("r1"), 1.0);
  EXPECT_EQ(sim.copies_into("r2"), 0.0) << "nobody follows it there";
}

TEST(Spread, NoChannelWaitsForTheVersionsOfAnother) {
  TwoRegions w;
  w.publish(8, 128);
  const double begin = w.sim.seconds();
  const BundleId other = w.sim.publish(16, kChunk, 1000, 0, "critic");
  ASSERT_TRUE(w.sim.run_until([&] { return w.sim.complete(other); }, 60s));
  EXPECT_LT(w.sim.seconds() - begin, 0.3 * w.bound());
  ASSERT_TRUE(w.sim.run_until([&] { return w.complete(); }, 60s));
  EXPECT_LT(w.sim.seconds() - begin, 1.15 * w.bound()) << "it costs the others no more than its bytes";
}

TEST(Spread, OneCopyOutOfTheTrainerAndIntoEachRegionNearTheBound) {
  TwoRegions w;
  w.publish(8, 128);
  double begin = w.sim.seconds();
  ASSERT_TRUE(w.sim.run_until([&] { return w.complete(); }, 60s));
  EXPECT_DOUBLE_EQ(w.sim.trainer_copies(), 1.0);
  EXPECT_DOUBLE_EQ(w.sim.copies_into("r1"), 1.0);
  EXPECT_DOUBLE_EQ(w.sim.copies_into("r2"), 1.0);
  EXPECT_LT(w.sim.seconds() - begin, 1.10 * w.bound());
}

TEST(Spread, SeveralGatewaysOfARegionTakeBundles) {
  TwoRegions w;
  w.publish(8, 128);
  ASSERT_TRUE(w.sim.run_until([&] { return w.held_share("r1") > 0.3; }, 60s));
  std::set<NodeKey> gateways;
  for (auto& b : w.bundles) {
    if (auto* g = w.sim.gateway_of(b, "r1")) gateways.insert(g->key());
  }
  EXPECT_GE(gateways.size(), 2u);
}

TEST(Spread, KilledGatewayCostsLittle) {
  TwoRegions w;
  w.publish(8, 128);
  ASSERT_TRUE(w.sim.run_until([&] { return w.held_share("r1") > 0.5; }, 60s));
  SpreadSim::Node* gateway = nullptr;
  for (auto& v : w.sim.nodes()[0]->spread.feeds().views()) {
    if (v.state == "flowing" && v.in_flight > 0) gateway = w.sim.find(v.gateway);
  }
  ASSERT_TRUE(gateway);
  w.sim.kill(*gateway);
  ASSERT_TRUE(w.sim.run_until([&] { return w.complete(); }, 60s));
  EXPECT_LE(w.sim.copies_into("r1"), 1.02);
  EXPECT_LE(w.sim.copies_into("r2"), 1.02);
  EXPECT_LT(w.sim.seconds(), 1.35 * w.bound());
}

TEST(Spread, HungGatewayCostsLittle) {
  TwoRegions w;
  w.publish(8, 128);
  ASSERT_TRUE(w.sim.run_until([&] { return w.held_share("r1") > 0.5; }, 60s));
  SpreadSim::Node* gateway = nullptr;
  for (auto& v : w.sim.nodes()[0]->spread.feeds().views()) {
    if (v.state == "flowing" && v.in_flight > 0) gateway = w.sim.find(v.gateway);
  }
  ASSERT_TRUE(gateway);
  w.sim.hang(*gateway);
  ASSERT_TRUE(w.sim.run_until([&] { return w.complete(); }, 60s));
  EXPECT_LE(w.sim.copies_into("r1"), 1.02);
  EXPECT_LE(w.sim.copies_into("r2"), 1.02);
  EXPECT_LT(w.sim.seconds(), 1.35 * w.bound());
}

// One node of four with a cable of a tenth: the others wait for nothing that it holds, and nothing crosses twice.
TEST(Spread, ASlowGatewayIsRelieved) {
  auto seconds = [](double cable, double* copies, bool* relieved) {
    SpreadSim sim;
    sim.access("trainer", 200e6, 0ms);
    sim.access("r1", 200e6, 43ms);
    sim.add_node("home", true);
    for (int i = 0; i < 4; ++i) sim.add_node("r1").cable_bits = i == 1 ? cable : 1e9;
    sim.run_for(200ms);
    SpreadSim::Node& slow = *sim.nodes()[2];
    std::vector<BundleId> bundles;
    for (std::uint32_t i = 0; i < 16; ++i) bundles.push_back(sim.publish(32, kChunk, 1, i));
    auto others_have_it = [&] {
      for (auto& n : sim.nodes()) {
        if (n->self().trainer || n.get() == &slow) continue;
        for (auto& b : bundles) {
          auto* held = n->spread.held(b);
          if (!held || !held->full()) return false;
        }
      }
      return true;
    };
    EXPECT_TRUE(sim.run_until(others_have_it, 60s));
    *copies = sim.copies_into("r1");
    auto& notes = sim.nodes()[0]->notes;
    *relieved = std::any_of(notes.begin(), notes.end(), [](auto& n) { return n.find("slow-gateway") != n.npos; });
    return sim.seconds();
  };
  double copies = 0, copies_undisturbed = 0;
  bool relieved = false, relieved_undisturbed = false;
  const double undisturbed = seconds(1e9, &copies_undisturbed, &relieved_undisturbed);
  const double with_slow_node = seconds(100e6, &copies, &relieved);
  EXPECT_FALSE(relieved_undisturbed);
  EXPECT_TRUE(relieved);
  EXPECT_LT(with_slow_node, 1.05 * undisturbed);
  EXPECT_DOUBLE_EQ(copies, 1.0);
  EXPECT_DOUBLE_EQ(copies_undisturbed, 1.0);
}

// Bundles that wait for their turn for long are not asked for anew: whoever gives older ones has not forgotten them.
TEST(Spread, ALongQueueIsNoStall) {
  TwoRegions w;
  w.publish(24, 128);  // 32 s of one link
  ASSERT_TRUE(w.sim.run_until([&] { return w.complete(); }, 120s));
  for (auto& n : w.sim.nodes()) {
    for (auto& [region, counters] : n->spread.feeds().counters()) {
      EXPECT_EQ(counters.duplicate_chunks + counters.lost_bytes + counters.leases_refused + counters.gateway_changes, 0u);
    }
    for (auto& note : n->notes) EXPECT_TRUE(note.find("epoch 1") != note.npos) << note;
  }
  EXPECT_DOUBLE_EQ(w.sim.copies_into("r1"), 1.0);
  EXPECT_DOUBLE_EQ(w.sim.copies_into("r2"), 1.0);
}

// Machines that are so busy that they answer only every few seconds: slow, but nothing may be lost for good.
TEST(Spread, StutteringFleetCompletes) {
  TwoRegions w;
  w.publish(8, 128);
  for (auto& n : w.sim.nodes()) {
    if (n->self().trainer) continue;
    auto* node = n.get();
    auto phase = 137 * static_cast<int>(node->key().data[0]);
    for (int at = 500 + phase; at < 60'000; at += 2'800) {
      w.sim.at(milliseconds(at), [&w, node] { w.sim.hang(*node); });
      w.sim.at(milliseconds(at + 2'700), [&w, node] { w.sim.resume(*node); });
    }
  }
  EXPECT_TRUE(w.sim.run_until([&] { return w.complete(); }, 300s));
}

TEST(Spread, RegionCutAndHealedCompletes) {
  TwoRegions w;
  w.publish(8, 128);
  ASSERT_TRUE(w.sim.run_until([&] { return w.held_share("r1") > 0.5; }, 60s));
  w.sim.cut("r1", true);
  w.sim.at(20s, [&] { w.sim.cut("r1", false); });
  ASSERT_TRUE(w.sim.run_until([&] { return w.complete(); }, 120s));
  EXPECT_LE(w.sim.copies_into("r1"), 1.02);
  EXPECT_LE(w.sim.copies_into("r2"), 1.02);
}

// A link of the trainer's breaks and is up again at once, several times over. The regions must not end up waiting for each
// other while the trainer, which has everything, is asked by nobody.
TEST(Spread, LinksThatBreakForAMomentStopNothing) {
  for (int round = 0; round < 6; ++round) {
    TwoRegions w;
    w.publish(6, 128);
    SpreadSim::Node& trainer = *w.sim.nodes()[0];
    for (std::size_t i = 1; i < w.sim.nodes().size(); ++i) {
      SpreadSim::Node& node = *w.sim.nodes()[i];
      auto lost = milliseconds(150 + 170 * round + 40 * static_cast<int>(i));
      w.sim.at(lost, [&] { trainer.spread.peer_lost(node.key()), node.spread.peer_lost(trainer.key()); });
      w.sim.at(lost + 50ms, [&] { trainer.spread.peer_up(node.key()), node.spread.peer_up(trainer.key()); });
    }
    EXPECT_TRUE(w.sim.run_until([&] { return w.complete(); }, 120s)) << "round " << round << ": r1 has " << w.held_share("r1")
                                                                    << ", r2 " << w.held_share("r2");
  }
}

// As after a cut: two upstreams feed one region with the same bundle, each through a node of its own.
TEST(Spread, AGatewayThatReceivesWellKeepsItsBundle) {
  TwoRegions w;
  w.publish(1, 512);
  const BundleId bundle = w.bundles[0];
  auto& nodes = w.sim.nodes();
  const std::string first = nodes[0]->spread.feeds().views().at(0).region.str();
  ASSERT_TRUE(w.sim.run_until([&] { return w.held_share(first) > 0.2; }, 60s));
  SpreadSim::Node* gateway = w.sim.gateway_of(bundle, first);
  ASSERT_TRUE(gateway);
  SpreadSim::Node *other = nullptr, *far = nullptr;
  for (auto& n : nodes) {
    if (n->self().trainer || n.get() == gateway) continue;
    (n->region() == first ? other : far) = n.get();
  }
  wire::LinkMessage ask;
  ask.mutable_lease_ask()->set_bundle(std::string(bundle.text()));
  ask.mutable_lease_ask()->set_epoch_seen(7);
  ask.mutable_lease_ask()->set_missing(ChunkSet(512, true).to_wire());
  far->spread.message(other->self(), ask);
  ASSERT_TRUE(w.sim.run_until([&] { return w.complete(); }, 60s));
  EXPECT_EQ(w.sim.gateway_of(bundle, first), gateway);
  EXPECT_LE(w.sim.copies_into(first), 1.08);  // what the second upstream had sent before it was told
}

TEST(Spread, FleetCompletesWithoutTheTrainerOnceEveryChunkIsOut) {
  TwoRegions w;
  w.publish(4, 128);
  auto all_acked = [&] {
    std::uint32_t acked = 0;
    for (auto& v : w.sim.nodes()[0]->spread.feeds().views()) acked += v.acked;
    return acked == 4 * 128;
  };
  ASSERT_TRUE(w.sim.run_until(all_acked, 60s));
  w.sim.kill(*w.sim.nodes()[0]);
  ASSERT_TRUE(w.sim.run_until([&] { return w.complete(); }, 60s));
  EXPECT_DOUBLE_EQ(w.sim.copies_into("r2"), 1.0);
}

TEST(Spread, RegionsOfOneNodeAndATrainerAlone) {
  TwoRegions one(1);
  one.publish(4, 128);
  ASSERT_TRUE(one.sim.run_until([&] { return one.complete(); }, 60s));
  EXPECT_DOUBLE_EQ(one.sim.copies_into("r1"), 1.0);
  TwoRegions alone(0);
  alone.publish(4, 128);
  alone.sim.run_for(1s);
  EXPECT_FALSE(alone.sim.nodes()[0]->spread.feeds().busy());
}

TEST(Spread, LateRegionPullsOneCopy) {
  TwoRegions w;
  w.sim.access("r3", 200e6, 20ms);
  w.publish(4, 128);
  ASSERT_TRUE(w.sim.run_until([&] { return w.complete(); }, 60s));
  for (int i = 0; i < 3; ++i) w.sim.add_node("r3");
  ASSERT_TRUE(w.sim.run_until([&] { return w.complete(); }, 60s));
  EXPECT_DOUBLE_EQ(w.sim.copies_into("r3"), 1.0);
  EXPECT_DOUBLE_EQ(w.sim.copies_into("r1"), 1.0);
}

TEST(Spread, LateNodeCostsNoWanByte) {
  TwoRegions w;
  w.publish(4, 128);
  ASSERT_TRUE(w.sim.run_until([&] { return w.complete(); }, 60s));
  w.sim.add_node("r1");
  w.sim.run_for(20s);
  EXPECT_DOUBLE_EQ(w.sim.copies_into("r1"), 1.0);
}

// Its gateway has had it all and dropped it. To whoever comes then, the gateway's lease must not stand in the
// way.
TEST(Spread, WhatARegionHasDroppedComesAgainForALateNode) {
  SpreadSim sim;
  sim.access("trainer", 200e6, 0ms);
  sim.access("r1", 200e6, 43ms);
  sim.add_node("home", true);
  SpreadSim::Node& first = sim.add_node("r1");
  sim.run_for(200ms);
  const BundleId bundle = sim.publish(32, kChunk);
  ASSERT_TRUE(sim.run_until([&] { return sim.complete(bundle); }, 30s));
  sim.run_for(10s);
  first.spread.forget(bundle);
  SpreadSim::Node& late = sim.add_node("r1");
  EXPECT_TRUE(sim.run_until([&] { return late.spread.held(bundle)->full(); }, 40s));
  EXPECT_DOUBLE_EQ(sim.copies_into("r1"), 2.0);
}

// Its retention has its own clock. The region must not wait for it as for somebody who has stopped.
TEST(Spread, AnUpstreamThatDropsWhatItFeedsIsNotWaitedFor) {
  TwoRegions w;
  w.sim.access("r3", 200e6, 20ms);
  w.publish(4, 128);
  ASSERT_TRUE(w.sim.run_until([&] { return w.complete(); }, 60s));
  auto relays = [&](const std::function<void(SpreadSim::Node&)>& each) {
    for (auto& node : w.sim.nodes()) {
      if (node->region() == "r1" || node->region() == "r2") each(*node);
    }
  };
  for (int i = 0; i < 3; ++i) w.sim.add_node("r3");
  auto relayed = [&] {
    bool some = false;
    relays([&](SpreadSim::Node& node) { some = some || node.spread.feeds().busy(); });
    return some && w.held_share("r3") > 0.3;
  };
  ASSERT_TRUE(w.sim.run_until(relayed, 10s));
  relays([&](SpreadSim::Node& node) {
    for (const BundleId& bundle : w.bundles) node.spread.forget(bundle);
  });
  EXPECT_TRUE(w.sim.run_until([&] { return w.held_share("r3") == 1.0; }, 8s));
  EXPECT_EQ(w.sim.stalls(), 0u);
  // What was on its way counts for nothing.
  EXPECT_LE(w.sim.copies_into("r3"), 1.25);
}

// Regions without anything and without a trainer, and shared storage that has it all. `mirrors` says of each
// node of a region whether it may read that.
struct EmptyRegions {
  SpreadSim sim;
  std::vector<std::string> names{"r1", "r2", "r3"};
  std::vector<BundleId> bundles;

  EmptyRegions(std::size_t regions,
               const std::function<bool(std::size_t region, std::size_t node)>& mirrors) {
    names.resize(regions);
    for (std::size_t r = 0; r < regions; ++r) sim.access(names[r], 200e6, milliseconds(30 + 20 * r));
    for (std::size_t n = 0; n < 3; ++n) {
      for (std::size_t r = 0; r < regions; ++r) sim.add_node(names[r]).mirror = mirrors(r, n);
    }
    sim.run_for(200ms);
    for (std::uint32_t i = 0; i < 6; ++i) bundles.push_back(sim.publish(64, kChunk, 1 + i / 3, i % 3));
  }
  bool complete(milliseconds limit) {
    return sim.run_until(
        [&] { return std::all_of(bundles.begin(), bundles.end(), [&](auto& b) { return sim.complete(b); }); },
        limit);
  }
  double read() const {
    double copies = 0;
    for (auto& name : names) copies += sim.read_from_mirror(name);
    return copies;
  }
  double most_into_a_region() const {
    double most = 0;
    for (auto& name : names) most = std::max(most, sim.read_from_mirror(name) + sim.copies_into(name));
    return most;
  }
};

TEST(SpreadFromMirror, RegionsThatAreEmptyAtOnceDoNotWaitForEachOther) {
  for (std::size_t regions : {1u, 2u, 3u}) {
    EmptyRegions w(regions, [](auto, auto) { return true; });
    ASSERT_TRUE(w.complete(60s)) << regions << " regions";
    EXPECT_DOUBLE_EQ(w.read(), 1.0) << "one of them reads each bundle, the others get it from there";
    EXPECT_DOUBLE_EQ(w.most_into_a_region(), 1.0);
  }
}

TEST(SpreadFromMirror, ARegionIsServedByTheOneNodeThatReadsTheMirror) {
  for (std::size_t regions : {1u, 2u}) {
    for (std::size_t reader : {0u, 1u, 2u}) {
      EmptyRegions w(regions, [=](auto, auto node) { return node == reader; });
      ASSERT_TRUE(w.complete(180s)) << regions << " regions, node " << reader << " reads";
      EXPECT_LE(w.most_into_a_region(), 1.0);
    }
  }
}

TEST(SpreadFromMirror, ARegionWithoutAMirrorIsServedByAnotherOne) {
  for (std::size_t reader : {0u, 1u}) {
    EmptyRegions w(2, [=](auto region, auto) { return region == reader; });
    ASSERT_TRUE(w.complete(120s)) << "region " << reader << " reads";
    EXPECT_DOUBLE_EQ(w.read(), 1.0);
    EXPECT_DOUBLE_EQ(w.most_into_a_region(), 1.0);
  }
}

}  // namespace
}  // namespace p2pw::testing
