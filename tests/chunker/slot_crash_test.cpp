// A process that dies, or a machine that loses power, at every operation of a slot's life.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/slot_driver.h"

namespace p2pw {
namespace {

using testing::Files;
using testing::files_in;
using testing::MemoryFileSystem;
using testing::SlotDriver;
using testing::TestSeries;

// Two slots; `current` follows. Each version is built in the standby, then activated; the other slot comes along later.
class Life {
 public:
  Life(TestSeries& series, MemoryFileSystem& files, std::vector<Version> versions)
      : series_(series), files_(files), versions_(std::move(versions)) {}

  // Opens everything and goes on to the end. Fails where the file system does.
  Status live() {
    P2PW_CHECK(files_.make_directories("/state/c"));
    P2PW_CHECK(files_.sync_directory("/state"));
    P2PW_CHECK(files_.sync_directory("/"));
    P2PW_TRY(auto pair, SlotPair::open(files_, {"/state/c", {}, {}}));
    for (;;) {
      auto active = pair->active();
      Version now = active == nullptr ? Version() : active->version();
      if (now == versions_.back()) return {};
      P2PW_CHECK(advance(*pair, now));
    }
  }

  // `current` is absent or names a published version, and stays so when it is looked at. A slot that calls itself whole
  // holds exactly its version.
  void expect_exact() {
    Files before = current();
    EXPECT_TRUE(before.empty() || published(before)) << "current names something that was never published";
    auto pair = SlotPair::open(files_, {"/state/c", {}, {}});
    if (!pair) return;
    EXPECT_TRUE(current() == before) << "current was lost: " << notes(**pair);
    for (const auto& slot : {(*pair)->standby(), (*pair)->active()}) {
      if (slot == nullptr || slot->phase() != Slot::Phase::whole) continue;
      EXPECT_TRUE(files_in(files_, slot->checkpoint()) == series_.at(slot->version()).files)
          << "slot " << name_of(slot->name()) << " is not what it says";
    }
  }
  Files current() {
    auto target = files_.read_link("/state/c/current");
    return target ? files_in(files_, "/state/c/" + *target) : Files{};
  }

 private:
  static std::string notes(const SlotPair& pair) {
    std::string text;
    for (const auto& slot : {pair.slot(SlotName::a), pair.slot(SlotName::b)}) {
      text += std::string(name_of(slot->name())) + " is " + std::string(name_of(slot->phase())) + " " + slot->note() + "; ";
    }
    return text;
  }
  bool published(const Files& found) {
    return std::any_of(versions_.begin(), versions_.end(),
                       [&](Version v) { return series_.at(v).files == found; });
  }
  Status advance(SlotPair& pair, Version now) {
    auto next = std::find(versions_.begin(), versions_.end(), now);
    next = next == versions_.end() ? versions_.begin() : next + 1;
    std::shared_ptr<Slot> standby = pair.standby();
    auto staged = standby->staged();
    if (!staged || staged->version() != *next) {
      auto from = std::find(versions_.begin(), versions_.end(), standby->version());
      if (from == versions_.end() || from > next) from = versions_.begin();
      SlotDriver driver(series_, *standby, pair.active().get());
      P2PW_TRY(auto built, driver.go(std::vector<Version>(from, next + 1)));
      staged = built;
    }
    P2PW_CHECK(pair.switch_to(*staged));
    pair.release();
    return {};
  }

  TestSeries& series_;
  MemoryFileSystem& files_;
  std::vector<Version> versions_;
};

class SlotCrash : public ::testing::TestWithParam<bool> {};

TEST_P(SlotCrash, AtEveryOperationTheSlotIsExactAndFinishes) {
  bool power = GetParam();
  TestSeries series(5, {.files = 2, .slabs_per_file = 3, .elements = 1500, .slabs_changed = 0.6});
  std::vector<Version> versions{series.first().version};
  versions.push_back(series.step(versions.back()).version);
  versions.push_back(series.step(versions.back(), true).version);

  std::uint64_t total = 0;
  {
    MemoryFileSystem files;
    Life life(series, files, versions);
    Status lived = life.live();
    ASSERT_TRUE(lived) << lived.error().message;
    total = files.operations();
    ASSERT_TRUE(life.current() == series.at(versions.back()).files);
  }
  ASSERT_GT(total, 50u);
  for (std::uint64_t at = 0; at < total; ++at) {
    SCOPED_TRACE("dies at operation " + std::to_string(at));
    MemoryFileSystem files(at + 1);
    files.short_writes = at % 2 == 1;
    Life life(series, files, versions);
    files.die_at(at);
    Status lived = life.live();
    ASSERT_EQ(lived.ok(), !files.dead()) << lived.error().message;
    power ? files.lose_power() : files.revive();
    life.expect_exact();
    // And once more while it recovers.
    files.die_at(at / 3);
    (void)life.live();
    power ? files.lose_power() : files.revive();
    life.expect_exact();
    lived = life.live();
    ASSERT_TRUE(lived) << lived.error().message;
    ASSERT_TRUE(life.current() == series.at(versions.back()).files);
    if (HasFailure()) break;
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, SlotCrash, ::testing::Values(false, true),
                         [](const auto& value) { return value.param ? "PowerLoss" : "Kill"; });

}  // namespace
}  // namespace p2pw
