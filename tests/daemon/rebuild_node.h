// A node's last metre for tests: slots in memory, a Rebuilder, activation without a hook, bundles in a temporary folder.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>

#include "daemon/core/activation.h"
#include "daemon/core/rebuild.h"
#include "tests/support/memory_file_system.h"
#include "tests/support/slot_driver.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_loop.h"
#include "tests/support/test_versions.h"

namespace p2pw::testing {

class RebuildNode : public RebuildEvents, public ActivationEvents {
 public:
  explicit RebuildNode(TestSeries& series, std::uint64_t seed = 1) : files(seed), series_(series) {
    (void)files.make_directories("/state/c");
    (void)files.sync_directory("/state");
    (void)files.sync_directory("/");
    start();
  }
  ~RebuildNode() override { stop(); }

  void start() {
    auto opened = SlotPair::open(files, {"/state/c", {}, {}, single});
    ASSERT_TRUE(opened) << opened.error().message;
    slots = std::move(*opened);
    pool = std::make_unique<WorkPool>(2, loop.executor());
    activation = std::make_unique<Activation>(*slots, *pool, nullptr, *this, ActivationOptions{});
    rebuilder = std::make_unique<Rebuilder>(*slots, *pool, *this);
  }
  void stop() {
    pool = nullptr;  // first: nothing is posted any more
    rebuilder = nullptr;
    activation = nullptr;
    slots = nullptr;
    bundles_.clear();
  }
  void restart() {
    stop();
    start();
  }

  // What a catalog and a spreader would tell, in pieces.
  void open(const TestRun& run) { rebuilder->open_run(run.id, run.open, run.sealer); }
  void bundle(const TestRun& run, std::size_t index) {
    const TestRun::Bundle& b = run.bundles[index];
    bundles_[b.id] = b.file(folder_.path());
    rebuilder->add_bundle(b.id, b.record, b.meta, bundles_[b.id]);
  }
  void chunk(const TestRun::Bundle& b, std::uint32_t chunk) {
    Status put = bundles_.at(b.id)->put(ChunkIndex(chunk), b.chunk(chunk));
    ASSERT_TRUE(put) << put.error().message;
    rebuilder->chunk_arrived(b.id, ChunkIndex(chunk));
  }
  void seal(const TestRun& run) { rebuilder->seal_run(run.id, run.seal, run.seal_hash); }
  void all(const TestRun& run) {
    open(run);
    for (std::size_t i = 0; i < run.bundles.size(); ++i) {
      bundle(run, i);
      for (std::uint32_t c = 0; c < run.bundles[i].record.chunk_count(); ++c) chunk(run.bundles[i], c);
    }
    seal(run);
  }
  std::filesystem::path bundle_path(const TestRun::Bundle& b) const { return folder_.path() / b.id.hex(); }

  bool until(const std::function<bool()>& condition) { return loop.run_until(condition); }
  bool until_active(Version version) {
    return until([&] { return slots->active() != nullptr && slots->active()->version() == version; });
  }
  bool until_caught_up(Version version) {
    return until([&] {
      auto standby = slots->standby();
      return standby->phase() == Slot::Phase::whole && standby->version() == version;
    });
  }
  bool until_idle() {
    return until([&] { return rebuilder->progress().tasks == 0; });
  }
  void expect_current(Version version) {
    auto target = files.read_link("/state/c/current");
    ASSERT_TRUE(target) << target.error().message;
    EXPECT_TRUE(files_in(files, "/state/c/" + *target) == series_.at(version).files);
  }
  void expect_slot(const Slot& slot, Version version) {
    EXPECT_EQ(slot.phase(), Slot::Phase::whole);
    EXPECT_EQ(slot.version(), version);
    EXPECT_TRUE(files_in(files, slot.checkpoint()) == series_.at(version).files);
  }

  void version_staged(const StagedVersion& version) override {
    staged.push_back(version.version());
    if (activate) activation->activate(version, {});
  }
  void standby_caught_up(Version version) override { caught_up.push_back(version); }
  void slab_lost(const LostSlab& slab) override { lost.push_back(slab); }
  void bundle_damaged(const BundleId& bundle, FrameIndex, const Error&) override { damaged.push_back(bundle); }
  void run_failed(const RunId& run, Version, const Error& error) override { failed.emplace_back(run, error); }
  void rebuild_blocked(const Error& error) override { blocked.push_back(error); }
  void version_active(const StagedVersion& version) override { active.push_back(version.version()); }
  void activation_failed(const StagedVersion&, const Error& error) override { refused.push_back(error); }
  void standby_released() override { rebuilder->slots_changed(); }
  void engine_changed() override {}

  TestLoop loop;
  MemoryFileSystem files;
  std::unique_ptr<SlotPair> slots;
  std::unique_ptr<WorkPool> pool;
  std::unique_ptr<Activation> activation;
  std::unique_ptr<Rebuilder> rebuilder;

  bool activate = true;
  bool single = false;  // one slot only; counts from the next start()
  std::vector<Version> staged, caught_up, active;
  std::vector<LostSlab> lost;
  std::vector<BundleId> damaged;
  std::vector<std::pair<RunId, Error>> failed;
  std::vector<Error> blocked, refused;

 private:
  TestSeries& series_;
  TempDir folder_;
  std::map<BundleId, std::shared_ptr<BundleFile>> bundles_;
};

}  // namespace p2pw::testing
