#include "daemon/core/rebuild_plan.h"

#include <gtest/gtest.h>

namespace p2pw {
namespace {

class PlanTest : public ::testing::Test {
 protected:
  std::shared_ptr<RebuildRun> add(Kind kind, std::uint64_t parent, std::uint64_t version, bool sealed) {
    OpenRecord open;
    open.kind = kind;
    open.parent = Version(parent);
    open.version = Version(version);
    RunId id;
    id.data[0] = static_cast<std::uint8_t>(++count_);
    auto run = *RebuildRun::make(id, open, nullptr);
    SealRecord seal;
    seal.bundles = 1;
    if (sealed) run->seal(seal, SealHash{});
    runs_.push_back(run);
    return run;
  }
  std::shared_ptr<RebuildRun> delta(std::uint64_t parent, std::uint64_t version, bool sealed = true) {
    return add(Kind::delta, parent, version, sealed);
  }
  std::shared_ptr<RebuildRun> anchor(std::uint64_t version, bool sealed = true) {
    return add(Kind::anchor, 0, version, sealed);
  }
  RebuildPlan plan(std::uint64_t standby, std::uint64_t active, std::uint64_t locked = 0, bool standby_whole = true) {
    return plan_rebuild({Version(standby), standby != 0 && standby_whole}, {Version(active), active != 0}, runs_,
                        Version(locked));
  }

  int count_ = 0;
  std::vector<std::shared_ptr<RebuildRun>> runs_;
};

TEST_F(PlanTest, NothingToDo) {
  EXPECT_EQ(plan(0, 0).start, RebuildStart::nothing);
  EXPECT_EQ(plan(3, 3).start, RebuildStart::nothing);
}

TEST_F(PlanTest, TheRunInFlight) {
  auto run = delta(3, 4, false);
  auto p = plan(3, 3);
  EXPECT_EQ(p.start, RebuildStart::standby);
  EXPECT_EQ(p.path, (std::vector{run}));
  EXPECT_EQ(p.target, Version(4));
  EXPECT_EQ(p.active_at, 0u);
}

TEST_F(PlanTest, CatchingUpAndTheRunInFlightInOneSweep) {
  auto second = delta(2, 3), third = delta(3, 4, false);
  auto p = plan(2, 3);
  EXPECT_EQ(p.path, (std::vector{second, third}));
  EXPECT_EQ(p.target, Version(4));
  EXPECT_EQ(p.active_at, 1u);
}

TEST_F(PlanTest, CatchingUpAlone) {
  delta(2, 3);
  auto p = plan(2, 3);
  EXPECT_EQ(p.start, RebuildStart::standby);
  EXPECT_EQ(p.target, Version(3));
  EXPECT_EQ(p.active_at, 1u);
}

TEST_F(PlanTest, TheNewestSealedVersionBeforeTheOneInFlight) {
  delta(1, 2);
  delta(2, 3);
  delta(3, 4, false);
  EXPECT_EQ(plan(1, 1).target, Version(3));
}

TEST_F(PlanTest, ALockedTargetStaysUntilItIsActive) {
  delta(1, 2);
  delta(2, 3);
  EXPECT_EQ(plan(1, 1, 2).target, Version(2));
  EXPECT_EQ(plan(1, 2, 2).target, Version(3));
  EXPECT_EQ(plan(1, 1, 7).target, Version(3)) << "a dead run was locked";
}

TEST_F(PlanTest, OfTwoRunsWithTheSameParentTheSealedOrTheNewer) {
  delta(1, 2, false);
  auto newer = delta(1, 3, false);
  EXPECT_EQ(plan(1, 1).path, (std::vector{newer}));
  auto sealed = delta(1, 2, true);
  EXPECT_EQ(plan(1, 1).path, (std::vector{sealed}));
}

TEST_F(PlanTest, NothingFollowsAnUnsealedRun) {
  auto open = delta(1, 2, false);
  delta(2, 3, false);
  EXPECT_EQ(plan(1, 1).path, (std::vector{open}));
}

TEST_F(PlanTest, AnchorForAnEmptyNodeWithItsDeltas) {
  auto a = anchor(5);
  auto d = delta(5, 6);
  auto p = plan(0, 0);
  EXPECT_EQ(p.start, RebuildStart::anchor);
  EXPECT_EQ(p.path, (std::vector{a, d}));
}

TEST_F(PlanTest, DeltasArePreferredToAnAnchorOfTheSameVersion) {
  anchor(6);
  auto d = delta(5, 6);
  auto p = plan(5, 5);
  EXPECT_EQ(p.start, RebuildStart::standby);
  EXPECT_EQ(p.path, (std::vector{d}));
}

TEST_F(PlanTest, AnAnchorWhenTheLineageIsBroken) {
  delta(7, 8);
  anchor(9);
  auto p = plan(5, 5);
  EXPECT_EQ(p.start, RebuildStart::anchor);
  EXPECT_EQ(p.target, Version(9));
}

TEST_F(PlanTest, ACopyOfTheActiveSlotWhenTheStandbyHasNoWay) {
  auto d = delta(7, 8, false);
  auto p = plan(0, 7);
  EXPECT_EQ(p.start, RebuildStart::copy);
  EXPECT_EQ(p.base, Version(7));
  EXPECT_EQ(p.path, (std::vector{d}));
  runs_.clear();
  p = plan(3, 7);
  EXPECT_EQ(p.start, RebuildStart::copy);
  EXPECT_EQ(p.target, Version(7));
}

TEST_F(PlanTest, BackToTheParentAfterADeadRun) {
  auto p = plan(4, 4, 0, false);
  EXPECT_EQ(p.start, RebuildStart::standby);
  EXPECT_TRUE(p.path.empty());
  EXPECT_EQ(p.target, Version(4));
}

TEST_F(PlanTest, FailedRunsAreNotTaken) {
  delta(1, 2)->failed = true;
  EXPECT_EQ(plan(1, 1).start, RebuildStart::nothing);
}

TEST_F(PlanTest, AStagedVersionThatIsNotActiveIsAStart) {
  auto d = delta(5, 6, false);
  auto p = plan(5, 4);
  EXPECT_EQ(p.start, RebuildStart::standby);
  EXPECT_EQ(p.path, (std::vector{d}));
}

TEST_F(PlanTest, NeighboursSlabsOrAnAnchorWhicheverCostsLess) {
  SealRecord seal;
  seal.bundles = 1;
  seal.delta_bytes = 660;
  anchor(5, false)->seal(seal, SealHash{});
  auto d = delta(5, 6);
  auto way = [&](std::uint64_t offered, std::uint64_t bytes) {
    return plan_rebuild({}, {}, runs_, {}, Version(offered), bytes);
  };
  EXPECT_EQ(way(5, 1000).start, RebuildStart::neighbours);
  EXPECT_EQ(way(5, 1000).path, (std::vector{d}));
  EXPECT_EQ(way(6, 1000).start, RebuildStart::neighbours);
  EXPECT_TRUE(way(6, 1000).path.empty());
  EXPECT_EQ(way(6, 1000).target, Version(6));
  EXPECT_EQ(way(5, 3000).start, RebuildStart::anchor);
  EXPECT_EQ(way(0, 0).start, RebuildStart::anchor);
  EXPECT_EQ(way(4, 1000).start, RebuildStart::anchor) << "the neighbours' version leads nowhere";
}

}  // namespace
}  // namespace p2pw
