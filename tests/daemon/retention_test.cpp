#include "daemon/core/retention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace p2pw {
namespace {

class RetentionTest : public ::testing::Test {
 protected:
  RetainedRun& add(std::uint64_t version, Kind kind = Kind::delta, bool again = false) {
    RetainedRun& run = runs_.emplace_back();
    run.id.data[0] = static_cast<std::uint8_t>(runs_.size());
    run.version = Version(version);
    run.kind = kind;
    run.again = again;
    run.state = RunState::sealed;
    run.complete = true;
    return run;
  }
  // An anchor of version 1 and deltas up to `last`.
  void chain(std::uint64_t last) {
    add(1, Kind::anchor);
    for (std::uint64_t v = 2; v <= last; ++v) add(v);
  }
  std::vector<std::uint64_t> kept() {
    std::vector<std::uint64_t> versions;
    auto verdicts = retain(runs_, facts_);
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      EXPECT_FALSE(verdicts[i].why.empty());
      if (verdicts[i].keep) versions.push_back(runs_[i].version.value());
    }
    return versions;
  }
  std::vector<std::uint64_t> up(std::uint64_t from, std::uint64_t to) {
    std::vector<std::uint64_t> all;
    for (; from <= to; ++from) all.push_back(from);
    return all;
  }

  std::vector<RetainedRun> runs_;
  RetentionFacts facts_;
};

TEST_F(RetentionTest, ANodeKeepsTheLastFewAndWhatItsSlotsNeed) {
  chain(30);
  EXPECT_EQ(kept(), up(27, 30));
  for (RetainedRun& run : runs_) run.needed = run.version > Version(20);
  EXPECT_EQ(kept(), up(21, 30));
}

TEST_F(RetentionTest, ALinkThatSomebodyNeedsIsNeverDropped) {
  chain(30);
  facts_.needs = {{"node a", Version(12)}, {"node b", Version(25)}};
  EXPECT_EQ(kept(), up(13, 30));
  auto verdicts = retain(runs_, facts_);
  EXPECT_EQ(verdicts[12].why, "node a is at version 12");
}

TEST_F(RetentionTest, AKeeperKeepsOneWayFromNothing) {
  chain(30);
  facts_.keeper = true;
  EXPECT_EQ(kept(), up(1, 30));
  // An anchor that is not all here replaces nothing.
  RetainedRun& anchor = add(25, Kind::anchor, true);
  anchor.complete = false;
  EXPECT_EQ(kept().front(), 1u);
  anchor.complete = true;
  std::vector<std::uint64_t> expected = up(26, 30);
  expected.push_back(25);
  EXPECT_EQ(kept(), expected);
}

TEST_F(RetentionTest, AJoinerOnItsWayFromAnOlderAnchorKeepsThatLineage) {
  chain(30);
  add(25, Kind::anchor, true);
  facts_.keeper = true;
  facts_.needs = {{"joiner c", Version(0)}};
  auto all = kept();
  EXPECT_EQ(std::count(all.begin(), all.end(), 1), 1);
  EXPECT_EQ(all.size(), runs_.size());
}

TEST_F(RetentionTest, DeadRunsGoAndOpenOnesStay) {
  chain(3);
  add(4).state = RunState::dead;
  add(5).state = RunState::open;
  EXPECT_EQ(kept(), (std::vector<std::uint64_t>{1, 2, 3, 5}));
}

// Whatever the needs: who is at any version that is named can walk from there to the newest one.
TEST_F(RetentionTest, EveryNeedHasItsWholeLineage) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 500; ++round) {
    runs_.clear();
    facts_ = {};
    std::uint64_t last = 5 + random() % 60;
    chain(last);
    facts_.keeper = random() % 2 == 0;
    for (std::uint64_t v = 25; v <= last; v += 25) add(v, Kind::anchor, true).complete = random() % 2 == 0;
    for (std::size_t i = random() % 4; i > 0; --i) facts_.needs.push_back({"node", Version(1 + random() % last)});
    auto all = kept();
    std::set<std::uint64_t> set(all.begin(), all.end());
    for (const Need& need : facts_.needs) {
      for (std::uint64_t v = need.above.value() + 1; v <= last; ++v) EXPECT_TRUE(set.contains(v)) << v;
    }
    if (!facts_.keeper) continue;
    // From nothing: some complete anchor with every delta after it.
    std::uint64_t start = 0;
    auto verdicts = retain(runs_, facts_);
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      if (runs_[i].kind == Kind::anchor && runs_[i].complete && verdicts[i].keep) start = std::max(start, runs_[i].version.value());
    }
    ASSERT_GT(start, 0u);
    for (std::uint64_t v = start + 1; v <= last; ++v) EXPECT_TRUE(set.contains(v)) << v;
  }
}

}  // namespace
}  // namespace p2pw
