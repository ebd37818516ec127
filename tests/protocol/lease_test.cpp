#include "protocol/lease.h"

#include <gtest/gtest.h>

#include "tests/protocol/make_records.h"

namespace p2pw {
namespace {

using namespace p2pw::testing;

const BundleId kBundle = blob<BundleId>(1);
const NodeKey kA = blob<NodeKey>(10), kB = blob<NodeKey>(20), kC = blob<NodeKey>(30);
const Region kRegion = region("eu");

using Answer = LeaseAnswer::Kind;
using Heard = RegionLeases::Heard;

TEST(LeaseTable, OneLiveLeaseForEachBundleAndRegion) {
  LeaseTable table;
  const auto first = table.ask(kBundle, kRegion, kA, Epoch(0));
  EXPECT_EQ(first.kind, Answer::granted);
  EXPECT_EQ(first.lease, (Lease{kA, Epoch(1)}));
  const auto second = table.ask(kBundle, kRegion, kB, Epoch(0));
  EXPECT_EQ(second.kind, Answer::refused);
  EXPECT_EQ(second.lease, first.lease) << "the refused learn who holds it";
  EXPECT_EQ(table.ask(kBundle, region("us"), kB, Epoch(0)).kind, Answer::granted);
  EXPECT_EQ(table.ask(blob<BundleId>(2), kRegion, kB, Epoch(0)).kind, Answer::granted);
  EXPECT_EQ(table.size(), 3u);
}

TEST(LeaseTable, AskingAgainChangesNothing) {
  LeaseTable table;
  const auto first = table.ask(kBundle, kRegion, kA, Epoch(0));
  EXPECT_EQ(table.ask(kBundle, kRegion, kA, Epoch(1)).lease, first.lease);
  EXPECT_EQ(table.ask(kBundle, kRegion, kA, Epoch(0)).lease, first.lease);
}

TEST(LeaseTable, RevokingFencesTheLateHolder) {
  LeaseTable table;
  const Lease old = table.ask(kBundle, kRegion, kA, Epoch(0)).lease;
  EXPECT_TRUE(table.in_force(kBundle, kRegion, old));
  table.revoke(kBundle, kRegion, kB);
  EXPECT_TRUE(table.in_force(kBundle, kRegion, old)) << "not the holder: nothing happens";
  table.revoke(kBundle, kRegion, kA);
  EXPECT_FALSE(table.holder(kBundle, kRegion));
  EXPECT_FALSE(table.in_force(kBundle, kRegion, old));
  const Lease next = table.ask(kBundle, kRegion, kB, Epoch(0)).lease;
  EXPECT_EQ(next, (Lease{kB, Epoch(2)}));
  EXPECT_FALSE(table.in_force(kBundle, kRegion, old));
  EXPECT_FALSE(table.in_force(kBundle, kRegion, {kA, Epoch(2)}));
  EXPECT_FALSE(table.in_force(kBundle, kRegion, {kB, Epoch(1)}));
  EXPECT_TRUE(table.in_force(kBundle, kRegion, next));
  EXPECT_EQ(table.ask(kBundle, kRegion, kA, Epoch(1)).kind, Answer::refused) << "it has come back too late";
}

TEST(LeaseTable, TheRevokedHolderMayAskAgainUnderANewEpoch) {
  LeaseTable table;
  table.ask(kBundle, kRegion, kA, Epoch(0));
  table.revoke_all(kA);
  EXPECT_EQ(table.ask(kBundle, kRegion, kA, Epoch(1)).lease, (Lease{kA, Epoch(2)}));
}

TEST(LeaseTable, EpochsRiseAboveWhatTheRegionHasSeen) {
  LeaseTable table;
  EXPECT_EQ(table.ask(kBundle, kRegion, kA, Epoch(7)).lease.epoch, Epoch(8));
  // Its region has seen another upstream's epoch 9 meanwhile; under 8 its chunks would be refused there.
  EXPECT_EQ(table.ask(kBundle, kRegion, kA, Epoch(9)).lease.epoch, Epoch(10));
  EXPECT_FALSE(table.in_force(kBundle, kRegion, {kA, Epoch(8)}));
}

TEST(LeaseTable, ForgetsWithTheBundle) {
  LeaseTable table;
  table.ask(kBundle, kRegion, kA, Epoch(0));
  table.forget(kBundle);
  EXPECT_EQ(table.size(), 0u);
  EXPECT_FALSE(table.holder(kBundle, kRegion));
  table.revoke(kBundle, kRegion, kA);
}

TEST(RegionLeases, HigherEpochWins) {
  RegionLeases leases;
  EXPECT_EQ(leases.hear(kBundle, {kB, Epoch(1)}), Heard::news);
  EXPECT_EQ(leases.hear(kBundle, {kB, Epoch(1)}), Heard::known);
  EXPECT_EQ(leases.hear(kBundle, {kC, Epoch(2)}), Heard::news);
  EXPECT_EQ(leases.hear(kBundle, {kB, Epoch(1)}), Heard::outranked);
  EXPECT_EQ(leases.current(kBundle), (Lease{kC, Epoch(2)}));
  EXPECT_EQ(leases.floor(kBundle), Epoch(2));
}

TEST(RegionLeases, SmallerKeyWinsATie) {
  RegionLeases leases;
  EXPECT_EQ(leases.hear(kBundle, {kB, Epoch(1)}), Heard::news);
  EXPECT_EQ(leases.hear(kBundle, {kC, Epoch(1)}), Heard::outranked);
  EXPECT_EQ(leases.hear(kBundle, {kA, Epoch(1)}), Heard::news);
  EXPECT_EQ(leases.hear(kBundle, {kB, Epoch(1)}), Heard::outranked);
  EXPECT_EQ(leases.current(kBundle), (Lease{kA, Epoch(1)}));
}

TEST(RegionLeases, DroppedHolderLeavesItsEpochAsAFloor) {
  RegionLeases leases;
  leases.hear(kBundle, {kA, Epoch(4)});
  leases.drop_holder(kA);
  EXPECT_FALSE(leases.current(kBundle));
  EXPECT_EQ(leases.floor(kBundle), Epoch(4));
  EXPECT_EQ(leases.hear(kBundle, {kB, Epoch(3)}), Heard::outranked);
  // Only suspected and back before anybody took over: its upstream still counts it as the holder.
  EXPECT_EQ(leases.hear(kBundle, {kA, Epoch(4)}), Heard::news);
  leases.forget(kBundle);
  EXPECT_EQ(leases.floor(kBundle), Epoch(0));
}

// A gateway is killed; its successor asks the same upstream; the first comes back.
TEST(LeaseStories, KilledGatewayIsSucceededAndFenced) {
  LeaseTable trainer;
  RegionLeases seen_by_a, seen_by_b;
  const Lease first = trainer.ask(kBundle, kRegion, kA, seen_by_a.floor(kBundle)).lease;
  for (RegionLeases* view : {&seen_by_a, &seen_by_b}) view->hear(kBundle, first);
  trainer.revoke_all(kA);
  seen_by_b.drop_holder(kA);
  const Lease second = trainer.ask(kBundle, kRegion, kB, seen_by_b.floor(kBundle)).lease;
  EXPECT_GT(second.epoch, first.epoch);
  EXPECT_EQ(seen_by_b.hear(kBundle, second), Heard::news);
  // A wakes up, still convinced; its upstream and its region tell it otherwise.
  EXPECT_FALSE(trainer.in_force(kBundle, kRegion, first));
  EXPECT_EQ(seen_by_b.hear(kBundle, first), Heard::outranked);
  EXPECT_EQ(seen_by_a.hear(kBundle, second), Heard::news);
}

// The region is cut in two: each half asks another upstream, both get epoch 1. When the halves meet exactly
// one stops.
TEST(LeaseStories, PartitionedRegionSettlesOnOneHolder) {
  LeaseTable trainer, relay;
  RegionLeases left, right;
  const Lease a = trainer.ask(kBundle, kRegion, kA, left.floor(kBundle)).lease;
  const Lease b = relay.ask(kBundle, kRegion, kB, right.floor(kBundle)).lease;
  EXPECT_EQ(a.epoch, b.epoch);
  left.hear(kBundle, a);
  right.hear(kBundle, b);
  EXPECT_EQ(left.hear(kBundle, b), Heard::outranked) << "A hears of B and goes on";
  EXPECT_EQ(right.hear(kBundle, a), Heard::news) << "B hears of A and stops";
  EXPECT_EQ(left.current(kBundle), right.current(kBundle));
}

// The same with unequal epochs, the announcements meeting in either order.
TEST(LeaseStories, LongerLivedHalfWins) {
  LeaseTable trainer, relay;
  RegionLeases left, right;
  trainer.ask(kBundle, kRegion, kC, Epoch(0));
  trainer.revoke_all(kC);
  const Lease a = trainer.ask(kBundle, kRegion, kB, Epoch(0)).lease;
  const Lease b = relay.ask(kBundle, kRegion, kA, Epoch(0)).lease;
  left.hear(kBundle, a);
  right.hear(kBundle, b);
  EXPECT_EQ(right.hear(kBundle, a), Heard::news);
  EXPECT_EQ(left.hear(kBundle, b), Heard::outranked);
  // A's upstream counts it as the holder still; when B dies, A must come back above what the region has seen.
  right.drop_holder(kB);
  EXPECT_EQ(relay.ask(kBundle, kRegion, kA, right.floor(kBundle)).lease, (Lease{kA, Epoch(3)}));
}

}  // namespace
}  // namespace p2pw
