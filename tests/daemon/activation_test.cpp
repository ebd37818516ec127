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

// Keeps each question until the test answers it.
class FakeEngine : public EngineHook {
 public:
  void prepare(const EngineTarget& target, Answer answer) override {
    prepared.push_back(target.version);
    prepare_answer = std::move(answer);
    if (there) take(prepare_answer)({});
  }
  void load(const EngineTarget& target, Loaded loaded) override {
    told.push_back(target.version);
    previous.push_back(target.previous);
    folder = target.checkpoint;
    tell_answer = std::move(loaded);
  }
  void ask(Report report) override {
    ++asked;
    confirm_answer = std::move(report);
  }
  bool can_tell() const override { return tells; }

  void loads() { take(tell_answer)({LoadResult::Kind::loaded, {}, {}, {}}); }
  void ends(LoadResult::Kind kind, Error error) { take(tell_answer)({kind, std::move(error), {}, {}}); }
  void says(const std::string& version) { take(confirm_answer)(EngineReport{version, ""}); }
  void keeps_silent(Error error) { take(confirm_answer)(error); }
  template <class Callback>
  static Callback take(Callback& callback) { return std::exchange(callback, nullptr); }

  bool there = true, tells = true;
  int asked = 0;
  std::vector<Version> prepared, told, previous;
  std::filesystem::path folder;
  Answer prepare_answer;
  Loaded tell_answer;
  Report confirm_answer;
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
    activation_ = std::make_unique<Activation>(*slots_, *pool_, hook, *this,
                                               ActivationOptions{*Channel::parse("policy"), 30s, 120s, 10s, 5s, retries_});
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
  // Version 1 is active and the engine says so, version 2 on its way.
  StagedVersion start_second(FakeEngine& engine) {
    use(nullptr);
    activation_->activate(stage({v1_}), at(0s));
    EXPECT_TRUE(until([&] { return !active_.empty(); }));
    use(&engine);
    EXPECT_FALSE(activation_->engine().known);
    EXPECT_EQ(activation_->served(), Version());
    EXPECT_FALSE(slots_->standby_free()) << "nobody knows yet which slot it reads";
    activation_->tick(at(0s));
    engine.says(text(v1_));
    EXPECT_EQ(activation_->served(), v1_);
    EXPECT_TRUE(slots_->standby_free());
    StagedVersion second = stage({v1_, v2_});
    activation_->activate(second, at(0s));
    EXPECT_TRUE(until_state(ActivationState::telling));
    released_ = 0;
    return second;
  }
  static std::string text(Version version) { return std::to_string(version.value()); }
  static Activation::Time at(std::chrono::seconds seconds) { return Activation::Time(seconds); }

  void version_active(const StagedVersion& version) override { active_.push_back(version.version()); }
  void activation_failed(const StagedVersion& version, const Error& error) override {
    failed_.emplace_back(version.version(), error);
  }
  void standby_released() override { ++released_; }
  void engine_changed() override {}

  TestSeries series_{31};
  MemoryFileSystem files_;
  TestLoop loop_;
  std::unique_ptr<SlotPair> slots_;
  std::unique_ptr<WorkPool> pool_;
  std::unique_ptr<Activation> activation_;
  std::vector<Version> active_;
  std::vector<std::pair<Version, Error>> failed_;
  int released_ = 0;
  unsigned retries_ = 0;
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
  EXPECT_EQ(engine.previous.back(), v1_);
  engine.loads();
  EXPECT_EQ(activation_->state(), ActivationState::confirming);
  EXPECT_EQ(active_, (std::vector<Version>{v1_}));
  EXPECT_EQ(activation_->served(), v1_) << "not before it says so";
  engine.says(text(v2_));
  EXPECT_EQ(active_, (std::vector<Version>{v1_, v2_}));
  EXPECT_EQ(activation_->served(), v2_);
  EXPECT_FALSE(slots_->standby_free());
  EXPECT_EQ(released_, 0);
  activation_->release();
  EXPECT_TRUE(slots_->standby_free());
  EXPECT_EQ(released_, 1);
}

TEST_F(ActivationTest, GraceEndsTheWaitForARelease) {
  FakeEngine engine;
  start_second(engine);
  engine.loads();
  activation_->tick(at(10s));
  engine.says(text(v2_));
  activation_->tick(at(20s));  // the watch
  engine.says(text(v2_));
  activation_->tick(at(29s));
  EXPECT_FALSE(slots_->standby_free());
  activation_->tick(at(41s));
  EXPECT_TRUE(slots_->standby_free());
  EXPECT_EQ(released_, 1);
}

TEST_F(ActivationTest, ReleaseBeforeTheConfirmationIsRemembered) {
  FakeEngine engine;
  start_second(engine);
  engine.loads();
  activation_->release();
  EXPECT_FALSE(slots_->standby_free());
  engine.says(text(v2_));
  EXPECT_TRUE(slots_->standby_free());
}

TEST_F(ActivationTest, RefusalGoesBackAndTheEngineIsToldSo) {
  FakeEngine engine;
  start_second(engine);
  engine.ends(LoadResult::Kind::refused, fail(ErrorCode::failed, "out of memory"));
  ASSERT_TRUE(until_state(ActivationState::restoring));
  expect_current(v1_);
  EXPECT_EQ(activation_->served(), Version()) << "it may hold a part of version 2";
  EXPECT_EQ(engine.told, (std::vector<Version>{v2_, v1_}));
  EXPECT_EQ(engine.folder, slots_->active()->checkpoint());
  engine.loads();
  engine.says(text(v1_));
  ASSERT_EQ(failed_.size(), 1u);
  EXPECT_EQ(failed_[0].first, v2_);
  EXPECT_EQ(failed_[0].second.message, "out of memory");
  EXPECT_EQ(activation_->served(), v1_);
  EXPECT_EQ(active_, (std::vector<Version>{v1_}));
  // The engine may still have files of version 2 open.
  EXPECT_FALSE(slots_->standby_free());
  activation_->tick(at(9s));
  activation_->tick(at(31s));
  EXPECT_TRUE(slots_->standby_free());
}

TEST_F(ActivationTest, AnEngineThatSaysAnotherVersionIsNotBelieved) {
  FakeEngine engine;
  start_second(engine);
  engine.loads();
  engine.says(text(v1_));
  ASSERT_TRUE(until_state(ActivationState::restoring));
  expect_current(v1_);
  engine.loads();
  engine.says(text(v1_));
  EXPECT_EQ(activation_->served(), v1_);
  EXPECT_EQ(failed_.at(0).second.code, ErrorCode::integrity);
}

TEST_F(ActivationTest, UntouchedWeightsAreNotLoadedAgain) {
  FakeEngine engine;
  start_second(engine);
  engine.ends(LoadResult::Kind::untouched, fail(ErrorCode::failed, "did not pause"));
  ASSERT_TRUE(until_state(ActivationState::asking));
  engine.says(text(v1_));
  EXPECT_EQ(engine.told, (std::vector<Version>{v2_}));
  EXPECT_EQ(activation_->served(), v1_);
  expect_current(v1_);
}

TEST_F(ActivationTest, ASilentEngineIsUnknownUntilAnotherLoadWentThrough) {
  FakeEngine engine;
  start_second(engine);
  activation_->tick(at(119s));
  EXPECT_EQ(activation_->state(), ActivationState::telling);
  activation_->tick(at(121s));
  ASSERT_TRUE(until_state(ActivationState::restoring));
  expect_current(v1_);
  // Its late answer changes nothing.
  engine.ends(LoadResult::Kind::unsure, fail(ErrorCode::timed_out, "hangs"));
  EXPECT_EQ(activation_->state(), ActivationState::idle);
  EXPECT_EQ(failed_.at(0).second.code, ErrorCode::timed_out);
  EXPECT_EQ(activation_->served(), Version());
  EXPECT_EQ(engine.asked, 1) << "its word is worth nothing while a load may be under way";
  activation_->tick(at(200s));
  EXPECT_EQ(activation_->state(), ActivationState::restoring);
  EXPECT_FALSE(slots_->standby_free());
  engine.loads();
  EXPECT_EQ(activation_->served(), Version());
  engine.says(text(v1_));
  EXPECT_EQ(activation_->served(), v1_);
}

TEST_F(ActivationTest, AnEngineThatIsNotThereIsNotWaitedForWithTheSlot) {
  FakeEngine engine;
  start_second(engine);
  engine.loads();
  engine.says(text(v2_));
  activation_->release();
  engine.there = false;
  StagedVersion third = stage({v2_, v3_});
  activation_->activate(third, at(1s));
  engine.take(engine.prepare_answer)(fail(ErrorCode::unreachable, "nobody listens"));
  EXPECT_EQ(activation_->state(), ActivationState::idle);
  expect_current(v2_);
  EXPECT_EQ(engine.told, (std::vector<Version>{v2_})) << "nothing was touched";
  EXPECT_EQ(activation_->served(), Version());
  // It comes back with something of its own; then it gets what `current` names, and the new version after that.
  engine.there = true;
  activation_->tick(at(3s));
  engine.says("default");
  EXPECT_EQ(engine.told.back(), v2_);
  engine.loads();
  engine.says(text(v2_));
  EXPECT_EQ(activation_->served(), v2_);
  activation_->tick(at(9s));
  ASSERT_TRUE(until_state(ActivationState::telling));
  engine.loads();
  engine.says(text(v3_));
  EXPECT_EQ(activation_->served(), v3_);
}

TEST_F(ActivationTest, AFailedVersionIsTriedAgainSoOften) {
  retries_ = 1;
  FakeEngine engine;
  start_second(engine);
  auto fails = [&] {
    engine.ends(LoadResult::Kind::refused, fail(ErrorCode::failed, "no"));
    ASSERT_TRUE(until_state(ActivationState::restoring));
    engine.loads();
    engine.says(text(v1_));
  };
  fails();
  activation_->tick(at(1s));
  EXPECT_EQ(activation_->state(), ActivationState::idle);
  activation_->tick(at(6s));
  ASSERT_TRUE(until_state(ActivationState::telling));
  fails();
  activation_->tick(at(15s));
  EXPECT_EQ(activation_->state(), ActivationState::idle);
  EXPECT_EQ(engine.told, (std::vector<Version>{v2_, v1_, v2_, v1_}));
}

TEST_F(ActivationTest, TheWatchFindsAnEngineThatServesSomethingElse) {
  FakeEngine engine;
  start_second(engine);
  engine.loads();
  engine.says(text(v2_));
  activation_->tick(at(11s));
  EXPECT_EQ(activation_->state(), ActivationState::asking);
  EXPECT_EQ(activation_->served(), v2_);
  engine.says("default");
  EXPECT_EQ(activation_->served(), Version());
  EXPECT_EQ(engine.told.back(), v2_);
  engine.loads();
  engine.says(text(v2_));
  EXPECT_EQ(activation_->served(), v2_);
  // One silence is none; two are.
  activation_->tick(at(22s));
  engine.keeps_silent(fail(ErrorCode::timed_out, "busy"));
  EXPECT_EQ(activation_->served(), v2_);
  activation_->tick(at(28s));
  engine.keeps_silent(fail(ErrorCode::timed_out, "busy"));
  EXPECT_EQ(activation_->served(), Version());
}

TEST_F(ActivationTest, WithNothingToAskItsAnswerToTheLoadCounts) {
  FakeEngine engine;
  engine.tells = false;
  use(&engine);
  activation_->activate(stage({v1_}), at(0s));
  ASSERT_TRUE(until_state(ActivationState::telling));
  engine.loads();
  EXPECT_EQ(activation_->served(), v1_);
  EXPECT_EQ(engine.asked, 0);
}

TEST_F(ActivationTest, GoingBackByHandTellsTheEngine) {
  FakeEngine engine;
  start_second(engine);
  engine.loads();
  engine.says(text(v2_));
  ASSERT_TRUE(activation_->go_back(at(1s)).ok());
  expect_current(v1_);
  EXPECT_EQ(engine.told.back(), v1_);
  EXPECT_EQ(activation_->go_back(at(1s)).error().code, ErrorCode::busy);
  engine.loads();
  engine.says(text(v1_));
  EXPECT_EQ(activation_->served(), v1_);
}

TEST_F(ActivationTest, TheFirstVersionHasNothingToGoBackTo) {
  FakeEngine engine;
  use(&engine);
  activation_->activate(stage({v1_}), at(0s));
  ASSERT_TRUE(until_state(ActivationState::telling));
  engine.ends(LoadResult::Kind::refused, fail(ErrorCode::failed, "no"));
  ASSERT_TRUE(until([&] { return !failed_.empty(); }));
  expect_current(v1_);
  EXPECT_EQ(activation_->state(), ActivationState::idle);
  EXPECT_EQ(activation_->served(), Version());
  activation_->tick(at(5s));
  EXPECT_EQ(engine.told.back(), v1_);
  engine.loads();
  engine.says(text(v1_));
  EXPECT_EQ(activation_->served(), v1_);
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
