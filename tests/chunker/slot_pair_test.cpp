#include "chunker/slot_pair.h"

#include <gtest/gtest.h>

#include "tests/support/slot_driver.h"

namespace p2pw {
namespace {

using testing::files_in;
using testing::MemoryFileSystem;
using testing::SlotDriver;
using testing::TestSeries;

class SlotPairTest : public ::testing::Test {
 protected:
  SlotPairTest() {
    v1_ = series_.first().version;
    v2_ = series_.step(v1_).version;
    (void)files_.make_directories("/c");
    open();
  }
  void open(SlotPlaces places = {"/c", {}, {}}) {
    auto pair = SlotPair::open(files_, std::move(places));
    ASSERT_TRUE(pair) << pair.error().message;
    pair_ = std::move(*pair);
  }
  StagedVersion stage(std::vector<Version> path) {
    auto staged = SlotDriver(series_, *pair_->standby(), pair_->active().get()).go(path);
    EXPECT_TRUE(staged) << staged.error().message;
    return *staged;
  }
  std::string link() {
    auto target = files_.read_link("/c/current");
    return target ? *target : "";
  }

  TestSeries series_{41};
  MemoryFileSystem files_;
  std::unique_ptr<SlotPair> pair_;
  Version v1_, v2_;
};

TEST_F(SlotPairTest, NothingIsActiveAtFirst) {
  EXPECT_EQ(pair_->active(), nullptr);
  EXPECT_EQ(pair_->standby()->name(), SlotName::a);
  EXPECT_TRUE(pair_->standby_free());
  EXPECT_EQ(pair_->pin_active(), nullptr);
  EXPECT_FALSE(pair_->switch_back());
}

TEST_F(SlotPairTest, SwitchingMakesThemChangePlaces) {
  ASSERT_TRUE(pair_->switch_to(stage({v1_})));
  EXPECT_EQ(link(), "slots/a/checkpoint");
  EXPECT_EQ(pair_->active()->name(), SlotName::a);
  EXPECT_FALSE(pair_->held());
  ASSERT_TRUE(pair_->switch_to(stage({v1_, v2_})));
  EXPECT_EQ(link(), "slots/b/checkpoint");
  EXPECT_TRUE(pair_->held());
  EXPECT_FALSE(pair_->standby_free());
  pair_->release();
  EXPECT_TRUE(pair_->standby_free());
  open();
  EXPECT_EQ(pair_->active_version()->version(), v2_);
  EXPECT_EQ(pair_->standby()->version(), v1_);
}

TEST_F(SlotPairTest, SwitchingBackWorksOnceAndOnlyBeforeRelease) {
  ASSERT_TRUE(pair_->switch_to(stage({v1_})));
  ASSERT_TRUE(pair_->switch_to(stage({v1_, v2_})));
  ASSERT_TRUE(pair_->switch_back());
  EXPECT_EQ(link(), "slots/a/checkpoint");
  EXPECT_EQ(pair_->active_version()->version(), v1_);
  EXPECT_FALSE(pair_->switch_back());
  ASSERT_TRUE(pair_->switch_to(*pair_->standby()->staged()));
  pair_->release();
  EXPECT_FALSE(pair_->switch_back());
}

TEST_F(SlotPairTest, OnlyWhatStandsInTheStandbyBecomesActive) {
  StagedVersion first = stage({v1_});
  ASSERT_TRUE(pair_->switch_to(first));
  EXPECT_FALSE(pair_->switch_to(first)) << "it is active already";
  StagedVersion second = stage({v1_, v2_});
  ASSERT_TRUE(pair_->standby()->begin_delta(RunId{}, Version(9)));
  EXPECT_FALSE(pair_->switch_to(second)) << "it is being patched";
  EXPECT_EQ(link(), "slots/a/checkpoint");
}

TEST_F(SlotPairTest, PinKeepsASlotFromBeingPatchedAcrossASwitch) {
  ASSERT_TRUE(pair_->switch_to(stage({v1_})));
  SlotPin pin = pair_->pin_active();
  SlotPin second_pin = pair_->pin_active();
  EXPECT_TRUE(pair_->standby_free()) << "the other slot is free to be patched";
  ASSERT_TRUE(pair_->switch_to(stage({v1_, v2_})));
  pair_->release();
  int told = 0;
  pair_->on_unpinned([&] { ++told; });
  EXPECT_FALSE(pair_->standby_free());
  pin.reset();
  EXPECT_FALSE(pair_->standby_free());
  EXPECT_EQ(told, 0);
  second_pin.reset();
  EXPECT_TRUE(pair_->standby_free());
  EXPECT_EQ(told, 1);
}

TEST_F(SlotPairTest, APinThatOutlivesThePairTellsNobody) {
  ASSERT_TRUE(pair_->switch_to(stage({v1_})));
  int told = 0;
  pair_->on_unpinned([&] { ++told; });
  SlotPin pin = pair_->pin_active();
  // A weak reference keeps the memory of a pin, not the pin.
  std::weak_ptr<const Slot> weak = pair_->pin_active();
  EXPECT_EQ(told, 0);
  pair_ = nullptr;
  pin.reset();
  EXPECT_EQ(told, 0);
}

TEST_F(SlotPairTest, CurrentThatNamesADamagedSlotIsRemoved) {
  ASSERT_TRUE(pair_->switch_to(stage({v1_})));
  files_.flip_byte("/c/slots/a/state", 30);
  open();
  EXPECT_EQ(pair_->active(), nullptr);
  EXPECT_EQ(link(), "");
}

TEST_F(SlotPairTest, SlotsMayLieElsewhere) {
  (void)files_.make_directories("/fast");
  open({"/c", "/fast/a", "/fast/b"});
  ASSERT_TRUE(pair_->switch_to(stage({v1_})));
  EXPECT_EQ(link(), "/fast/a/checkpoint");
  open({"/c", "/fast/a", "/fast/b"});
  EXPECT_EQ(pair_->active_version()->version(), v1_);
  EXPECT_TRUE(files_in(files_, link()) == series_.at(v1_).files);
}

}  // namespace
}  // namespace p2pw
