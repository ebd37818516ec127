#include "daemon/core/activation.h"

#include <gtest/gtest.h>

#include "tests/support/slot_driver.h"
#include "tests/support/test_loop.h"

namespace p2pw {
namespace {

using namespace std::chrono_literals;
using testing::files_in;
using testing::MemoryFileSystem;
using testing::SlotDriver;
using testing::TestLoop;
using testing::TestSeries;

class FakeEngine : public EngineHook {
 public:
  void tell(const StagedVersion& version, const std::filesystem::path& checkpoint, Answer answer) override {
    told.push_back(version.version());
    folder = checkpoint;
    tell_answer = std::move(answer);
  }
  void confirm(const StagedVersion&, Answer answer) override { confirm_answer = std::move(answer); }

  std::vector<Version> told;
  std::filesystem::path folder;
  Answer tell_answer, confirm_answer;
};

class ActivationTest : public ::testing::Test, public ActivationEvents {
 protected:
  ActivationTest() {
    v1_ = series_.first().version;
    v2_ = series_.step(v1_).version;
    v3_ = series_.step(v2_).version;
    (void)files_.make_directories("/c");
    slots_ = std::move(*SlotPair::open(files_, {"/c", {}, {}}));
  }
  ~ActivationTest() override { pool_ = nullptr; }

  void use(EngineHook* hook) {
    pool_ = std::make_unique<WorkPool>(1, loop_.executor());
    activation_ = std::make_unique<Activation>(*slots_, *pool_, hook, *this, ActivationOptions{30s, 120s});
  }
  // Builds a version in the standby slot.
  StagedVersion stage(std::vector<Version> path) {
    auto staged = SlotDriver(series_, *slots_->standby(), slots_->active().get()).go(path);
    EXPECT_TRUE(staged) << staged.error().message;
    return *staged;
  }
  bool until(const std::function<bool()>& condition) { return loop_.run_until(condition); }
  bool until_state(ActivationState state) {
    return until([&] { return activation_->state() == state; });
  }
  void expect_current(Version version) {
    auto target = files_.read_link("/c/current");
    ASSERT_TRUE(target) << target.error().message;
    EXPECT_TRUE(files_in(files_, "/c/" + *target) == series_.at(version).files);
  }
  // Version 1 is active, version 2 on its way with a hook.
  StagedVersion start_second(FakeEngine& engine) {
    use(nullptr);
    activation_->activate(stage({v1_}), at(0s));
    EXPECT_TRUE(until([&] { return !active_.empty(); }));
    use(&engine);
    StagedVersion second = stage({v1_, v2_});
    activation_->activate(second, at(0s));
    EXPECT_TRUE(until_state(ActivationState::telling));
    released_ = 0;
    return second;
  }
  static Activation::Time at(std::chrono::seconds seconds) { return Activation::Time(seconds); }

  void version_active(const StagedVersion& version) override { active_.push_back(version.version()); }
  void activation_failed(const StagedVersion& version, const Error& error) override {
    failed_.emplace_back(version.version(), error);
  }
  void standby_released() override { ++released_; }

  TestSeries series_{31};
  MemoryFileSystem files_;
  TestLoop loop_;
  std::unique_ptr<SlotPair> slots_;
  std::unique_ptr<WorkPool> pool_;
  std::unique_ptr<Activation> activation_;
  std::vector<Version> active_;
  std::vector<std::pair<Version, Error>> failed_;
  int released_ = 0;
  Version v1_, v2_, v3_;
};

TEST_F(ActivationTest, WithoutAHookAStagedVersionIsActiveAtOnce) {
  use(nullptr);
  activation_->activate(stage({v1_}), at(0s));
  EXPECT_FALSE(slots_->standby_free());
  ASSERT_TRUE(until([&] { return !active_.empty(); }));
  expect_current(v1_);
  EXPECT_TRUE(slots_->standby_free());
  EXPECT_EQ(released_, 1);
  activation_->activate(stage({v1_, v2_}), at(0s));
  ASSERT_TRUE(until([&] { return active_.size() == 2; }));
  expect_current(v2_);
  EXPECT_EQ(slots_->standby()->version(), v1_);
  EXPECT_TRUE(slots_->standby_free());
}

TEST_F(ActivationTest, TheOldSlotIsLeftAloneUntilTheEngineReleasesIt) {
  FakeEngine engine;
  start_second(engine);
  expect_current(v2_);
  EXPECT_EQ(engine.folder, slots_->active()->checkpoint());
  engine.tell_answer({});
  EXPECT_EQ(activation_->state(), ActivationState::confirming);
  EXPECT_EQ(active_, (std::vector<Version>{v1_}));
  engine.confirm_answer({});
  EXPECT_EQ(active_, (std::vector<Version>{v1_, v2_}));
  EXPECT_FALSE(slots_->standby_free());
  EXPECT_EQ(released_, 0);
  activation_->release();
  EXPECT_TRUE(slots_->standby_free());
  EXPECT_EQ(released_, 1);
}

TEST_F(ActivationTest, GraceEndsTheWaitForARelease) {
  FakeEngine engine;
  start_second(engine);
  engine.tell_answer({});
  activation_->tick(at(10s));
  engine.confirm_answer({});
  activation_->tick(at(39s));
  EXPECT_FALSE(slots_->standby_free());
  activation_->tick(at(41s));
  EXPECT_TRUE(slots_->standby_free());
  EXPECT_EQ(released_, 1);
}

TEST_F(ActivationTest, ReleaseBeforeTheConfirmationIsRemembered) {
  FakeEngine engine;
  start_second(engine);
  engine.tell_answer({});
  activation_->release();
  EXPECT_FALSE(slots_->standby_free());
  engine.confirm_answer({});
  EXPECT_TRUE(slots_->standby_free());
}

TEST_F(ActivationTest, RefusalGoesBackToTheOldVersion) {
  for (bool at_confirm : {false, true}) {
    SCOPED_TRACE(at_confirm);
    FakeEngine engine;
    failed_.clear();
    active_.clear();
    slots_ = nullptr;
    pool_ = nullptr;
    for (const std::string& path : files_.files_under("/c")) files_.erase("/c/" + path);
    slots_ = std::move(*SlotPair::open(files_, {"/c", {}, {}}));
    start_second(engine);
    Error no = fail(ErrorCode::failed, "out of memory");
    if (at_confirm) {
      engine.tell_answer({});
      engine.confirm_answer(no);
    } else {
      engine.tell_answer(no);
    }
    ASSERT_TRUE(until([&] { return !failed_.empty(); }));
    EXPECT_EQ(failed_[0].first, v2_);
    EXPECT_EQ(failed_[0].second.message, "out of memory");
    expect_current(v1_);
    EXPECT_EQ(active_, (std::vector<Version>{v1_}));
    // The engine may still have files of version 2 open.
    EXPECT_FALSE(slots_->standby_free());
    activation_->tick(at(31s));
    EXPECT_TRUE(slots_->standby_free());
  }
}

TEST_F(ActivationTest, AnEngineThatDoesNotAnswerIsGivenUp) {
  FakeEngine engine;
  start_second(engine);
  activation_->tick(at(119s));
  EXPECT_EQ(activation_->state(), ActivationState::telling);
  activation_->tick(at(121s));
  ASSERT_TRUE(until([&] { return !failed_.empty(); }));
  EXPECT_EQ(failed_[0].second.code, ErrorCode::timed_out);
  expect_current(v1_);
  // Its late answer changes nothing.
  engine.tell_answer({});
  EXPECT_EQ(activation_->state(), ActivationState::idle);
  expect_current(v1_);
}

TEST_F(ActivationTest, TheFirstVersionHasNothingToGoBackTo) {
  FakeEngine engine;
  use(&engine);
  activation_->activate(stage({v1_}), at(0s));
  ASSERT_TRUE(until_state(ActivationState::telling));
  engine.tell_answer(fail(ErrorCode::failed, "no"));
  ASSERT_TRUE(until([&] { return !failed_.empty(); }));
  expect_current(v1_);
  EXPECT_EQ(activation_->state(), ActivationState::idle);
}

TEST_F(ActivationTest, FailedSwitchIsSettledBeforeTheStandbyIsTouched) {
  use(nullptr);
  activation_->activate(stage({v1_}), at(0s));
  ASSERT_TRUE(until([&] { return !active_.empty(); }));
  StagedVersion second = stage({v1_, v2_});
  // The rename goes through, its way to stable storage does not.
  bool broken = true;
  files_.fault = [&](const std::string& operation, const std::filesystem::path& path) -> std::optional<Error> {
    if (broken && operation == "sync_directory" && path == "/c") return fail(ErrorCode::io, "EIO");
    return std::nullopt;
  };
  released_ = 0;
  activation_->activate(second, at(0s));
  ASSERT_TRUE(until([&] { return !failed_.empty(); }));
  EXPECT_FALSE(slots_->standby_free());
  activation_->tick(at(1s));
  ASSERT_TRUE(until_state(ActivationState::idle));
  EXPECT_FALSE(slots_->standby_free());
  broken = false;
  activation_->tick(at(2s));
  ASSERT_TRUE(until([&] { return released_ == 1; }));
  EXPECT_TRUE(slots_->standby_free());
  expect_current(v1_);
  activation_->activate(second, at(3s));
  ASSERT_TRUE(until([&] { return active_.size() == 2; }));
  expect_current(v2_);
}

TEST_F(ActivationTest, AVersionThatIsGoneIsNotActivated) {
  use(nullptr);
  StagedVersion first = stage({v1_});
  (void)stage({v1_, v2_});
  activation_->activate(first, at(0s));
  ASSERT_TRUE(until([&] { return !failed_.empty(); }));
  EXPECT_FALSE(files_.exists("/c/current"));
}

}  // namespace
}  // namespace p2pw
