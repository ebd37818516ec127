// The inside of Rebuilder, shared by its two sources: rebuild.cpp takes in what happens, rebuild_work.cpp goes on with it.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <vector>

#include "daemon/core/rebuild.h"
#include "daemon/core/rebuild_plan.h"
#include "daemon/core/rebuild_sweep.h"
#include "daemon/core/rebuild_tasks.h"

namespace p2pw {

using RunPtr = std::shared_ptr<RebuildRun>;

class Rebuilder::Impl {
 public:
  Impl(SlotPair& slots, WorkPool& pool, RebuildEvents& events);
  ~Impl() { slots_.on_unpinned(nullptr); }
  Impl(const Impl&) = delete;

  // What is under way with the sweep as a whole; slab tasks run only in `working`.
  enum class Stage : std::uint8_t { idle, opening, working, finishing };

  void open_run(const RunId& id, const OpenRecord& open, std::shared_ptr<const FrameSealer> sealer);
  void add_bundle(const BundleId& id, RebuildRun::Bundle bundle, const RunId& run);
  void chunk_arrived(const BundleId& id, ChunkIndex chunk);
  void seal_run(const RunId& id, const SealRecord& seal, const SealHash& hash);
  void drop_run(const RunId& id);
  void slots_changed();
  void retry();
  void slab_arrived(std::uint32_t slab, Bytes bytes, const Digest& digest);
  void offer_base(std::shared_ptr<const CheckpointTable> table, Version version, const SealHash& seal);
  void avoid(std::set<RunId> runs);
  bool avoids(const RunId& run) const { return avoided_.contains(run); }
  bool needs(Version version) const;
  const RunPtr* find(const RunId& id) const;
  RebuildProgress progress() const;
  std::uint64_t arrivals() const { return arrivals_; }

 private:
  // Going on: replans when something has changed, then hands out work.
  void pump();
  bool replan();  // false: not yet, tasks are still under way
  void drop_sweep();
  void open_slot();
  void slot_opened(Status status);
  bool next_bytes();
  void bytes_decoded(const RunPtr& run, const std::vector<RebuildRun::FramePlace>& places, BytesOutcome outcome);
  void prepare_layout();
  void hand_out_slabs();
  void slab_finished(const RebuildSweep::Work& work, const std::vector<RunPtr>& path, SlabOutcome outcome);
  void try_finish();
  void finished(const RunPtr& run, Result<Slot::Finish> result);
  void clean_up();

  RunPtr target_run() const { return sweep_->plan().path.empty() ? nullptr : sweep_->plan().path.back(); }
  std::shared_ptr<const CheckpointTable> wanted_table() const;
  const ByteTable* bytes_before(std::size_t place) const;
  bool parent_fits(const RebuildRun& run, std::size_t place);

  void fail_run(const RunPtr& run, Error error);
  void block(const Error& error);
  void report_lost(std::uint32_t slab, std::string reason, bool refused = false);
  void emit(std::function<void()> event);
  void deliver();
  void metas_changed(const RunPtr& run);
  void apply_arrivals(const RunPtr& run, const std::vector<std::uint32_t>& slabs);

  // Runs `work` on the pool; `done` only if the Rebuilder still exists.
  template <class Work, class Done>
  void task(Work work, Done done) {
    ++tasks_;
    std::weak_ptr<int> alive = alive_;
    pool_.run(std::move(work), [this, alive, done = std::move(done)](auto&& value) mutable {
      if (alive.expired()) return;
      --tasks_;
      in_task_ = true;
      done(std::forward<decltype(value)>(value));
      in_task_ = false;
      deliver();
      if (alive.expired()) return;
      pump();
    });
  }

  SlotPair& slots_;
  WorkPool& pool_;
  RebuildEvents& events_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();

  std::map<RunId, RunPtr> runs_;
  std::set<RunId> avoided_;
  std::uint64_t arrivals_ = 0;
  std::map<BundleId, std::pair<RunPtr, std::uint32_t>> bundles_;

  struct Offer {
    std::shared_ptr<const CheckpointTable> table;
    Version version;
    SealHash seal;
  };
  std::optional<Offer> offer_;

  bool plan_stale_ = true;
  bool blocked_ = false;
  bool waiting_for_slot_ = false;
  Stage stage_ = Stage::idle;
  bool bytes_busy_ = false;
  Version locked_;
  std::shared_ptr<Slot> slot_;  // of the sweep
  std::unique_ptr<RebuildSweep> sweep_;
  unsigned tasks_ = 0;
  std::uint64_t slabs_refilled_ = 0;
  std::vector<std::function<void()>> pending_events_;
  bool delivery_posted_ = false;
  bool in_task_ = false;  // what is emitted now is delivered at the end of it
};

}  // namespace p2pw
