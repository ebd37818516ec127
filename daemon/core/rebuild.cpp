#include "daemon/core/rebuild.h"

#include <algorithm>
#include <map>

#include "daemon/core/rebuild_plan.h"
#include "daemon/core/rebuild_sweep.h"
#include "daemon/core/rebuild_tasks.h"

namespace p2pw {
namespace {

using RunPtr = std::shared_ptr<RebuildRun>;

SlotView view_of(const std::shared_ptr<Slot>& slot) {
  if (slot == nullptr) return {};
  return {slot->version(), slot->phase() == Slot::Phase::whole};
}

std::string version_text(Version version) { return "version " + std::to_string(version.value()); }

}  // namespace

class Rebuilder::Impl {
 public:
  Impl(SlotPair& slots, WorkPool& pool, RebuildEvents& events) : slots_(slots), pool_(pool), events_(events) {}

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
  bool needs(const RebuildRun& run) const;
  bool needs(Version version) const;
  const RunPtr* find(const RunId& id) const;
  RebuildProgress progress() const;

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
  void report_lost(std::uint32_t slab, std::string reason);
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
  std::map<BundleId, std::pair<RunPtr, std::uint32_t>> bundles_;

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

// --- what comes in ---------------------------------------------------------------------------------------------------

const RunPtr* Rebuilder::Impl::find(const RunId& id) const {
  auto found = runs_.find(id);
  return found == runs_.end() ? nullptr : &found->second;
}

void Rebuilder::Impl::open_run(const RunId& id, const OpenRecord& open, std::shared_ptr<const FrameSealer> sealer) {
  if (runs_.contains(id)) return;
  auto run = RebuildRun::make(id, open, std::move(sealer));
  if (!run) {
    emit([this, id, version = open.version, error = run.error()] { events_.run_failed(id, version, error); });
    return;
  }
  runs_.emplace(id, *run);
  plan_stale_ = true;
  pump();
}

void Rebuilder::Impl::add_bundle(const BundleId& id, RebuildRun::Bundle bundle, const RunId& run_id) {
  const RunPtr* run = find(run_id);
  if (run == nullptr || bundles_.contains(id)) return;
  std::uint32_t index = bundle.record.index.value();
  std::vector<std::uint32_t> slabs;
  if (Status added = (*run)->add_bundle(std::move(bundle), slabs); !added) {
    fail_run(*run, added.error());
    return;
  }
  bundles_.emplace(id, std::pair(*run, index));
  apply_arrivals(*run, slabs);
  metas_changed(*run);
  pump();
}

void Rebuilder::Impl::chunk_arrived(const BundleId& id, ChunkIndex chunk) {
  auto found = bundles_.find(id);
  if (found == bundles_.end()) return;
  auto& [run, index] = found->second;
  std::vector<std::uint32_t> slabs;
  run->chunk_arrived(index, chunk, slabs);
  apply_arrivals(run, slabs);
  pump();
}

void Rebuilder::Impl::apply_arrivals(const RunPtr& run, const std::vector<std::uint32_t>& slabs) {
  if (sweep_ == nullptr) return;
  const auto& path = sweep_->plan().path;
  if (std::find(path.begin(), path.end(), run) == path.end()) return;
  for (std::uint32_t slab : slabs) sweep_->frame_arrived(slab);
}

void Rebuilder::Impl::metas_changed(const RunPtr& run) {
  if (!run->metas_complete()) return;
  if (run->lacks_frames()) {
    fail_run(run, fail(ErrorCode::malformed, "anchor of " + version_text(run->version()) + ": has no frame for some slabs"));
    return;
  }
  run->bytes_need_all_metas = false;
  if (sweep_ != nullptr) sweep_->rescan();
}

void Rebuilder::Impl::seal_run(const RunId& id, const SealRecord& seal, const SealHash& hash) {
  const RunPtr* run = find(id);
  if (run == nullptr || (*run)->sealed()) return;
  (*run)->seal(seal, hash);
  plan_stale_ = true;
  metas_changed(*run);
  pump();
}

void Rebuilder::Impl::drop_run(const RunId& id) {
  const RunPtr* run = find(id);
  if (run == nullptr) return;
  std::erase_if(bundles_, [&](const auto& entry) { return entry.second.first == *run; });
  runs_.erase(id);
  plan_stale_ = true;
  pump();
}

void Rebuilder::Impl::slots_changed() {
  plan_stale_ = true;
  pump();
}

void Rebuilder::Impl::retry() {
  blocked_ = false;
  if (sweep_ != nullptr) {
    for (std::uint32_t slab : sweep_->lost_slabs()) sweep_->found(slab);
  }
  pump();
}

void Rebuilder::Impl::slab_arrived(std::uint32_t slab, Bytes bytes, const Digest& digest) {
  if (sweep_ == nullptr || stage_ != Stage::working) return;
  auto lost = sweep_->lost_slabs();
  if (!std::binary_search(lost.begin(), lost.end(), slab)) return;
  auto shared = std::make_shared<Bytes>(std::move(bytes));
  task([slot = slot_, slab, shared, digest] { return slot->put(slab, *shared, digest); },
       [this, slab](const Status& put) {
         if (put && sweep_ != nullptr) sweep_->found(slab);
         if (!put && put.error().code == ErrorCode::integrity) report_lost(slab, put.error().message);
         if (!put && put.error().code != ErrorCode::integrity) block(put.error());
       });
}

// --- events ----------------------------------------------------------------------------------------------------------

void Rebuilder::Impl::emit(std::function<void()> event) {
  pending_events_.push_back(std::move(event));
  if (in_task_ || delivery_posted_) return;
  delivery_posted_ = true;
  std::weak_ptr<int> alive = alive_;
  pool_.run([] {}, [this, alive] {
    if (!alive.expired()) deliver();
  });
}

void Rebuilder::Impl::deliver() {
  delivery_posted_ = false;
  std::weak_ptr<int> alive = alive_;
  for (auto& event : std::exchange(pending_events_, {})) {
    if (!alive.expired()) event();
  }
}

void Rebuilder::Impl::block(const Error& error) {
  if (std::exchange(blocked_, true)) return;
  emit([this, error] { events_.rebuild_blocked(error); });
}

void Rebuilder::Impl::fail_run(const RunPtr& run, Error error) {
  if (run->failed) return;
  run->failed = true;
  plan_stale_ = true;
  emit([this, id = run->id(), version = run->version(), error = std::move(error)] {
    events_.run_failed(id, version, error);
  });
}

void Rebuilder::Impl::report_lost(std::uint32_t slab, std::string reason) {
  RebuildEvents::LostSlab lost{slab, sweep_->wanted(slab), std::move(reason)};
  emit([this, lost = std::move(lost)] { events_.slab_lost(lost); });
}

// --- going on --------------------------------------------------------------------------------------------------------

void Rebuilder::Impl::pump() {
  // A run that turns out not to fit makes for another plan.
  while (plan_stale_ && replan()) {
  }
  if (sweep_ == nullptr || blocked_ || plan_stale_) return;
  if (stage_ == Stage::idle) open_slot();
  if (stage_ == Stage::opening || stage_ == Stage::finishing) return;
  next_bytes();
  if (sweep_->started()) {
    hand_out_slabs();
    try_finish();
  } else {
    prepare_layout();
  }
  if (plan_stale_ && tasks_ == 0) pump();
}

bool Rebuilder::Impl::replan() {
  std::vector<RunPtr> runs;
  for (const auto& [id, run] : runs_) runs.push_back(run);
  std::shared_ptr<Slot> standby = slots_.standby();
  RebuildPlan plan = plan_rebuild(view_of(standby), view_of(slots_.active()), runs, locked_);
  waiting_for_slot_ = plan.start != RebuildStart::nothing && !slots_.standby_free();
  bool same = sweep_ != nullptr && !waiting_for_slot_ && slot_ == standby && sweep_->plan().same_way(plan);
  if (same) {
    plan_stale_ = false;
    return true;
  }
  // Tasks of the sweep before must not meet those of the next.
  if (tasks_ > 0) return false;
  plan_stale_ = false;
  drop_sweep();
  if (plan.start == RebuildStart::nothing || waiting_for_slot_) return true;
  std::shared_ptr<const CheckpointTable> base;
  if (plan.start == RebuildStart::standby) base = standby->table();
  if (plan.start == RebuildStart::copy) base = slots_.active()->table();
  slot_ = std::move(standby);
  sweep_ = std::make_unique<RebuildSweep>(std::move(plan), std::move(base));
  for (std::size_t i = 0; i < sweep_->plan().path.size(); ++i) {
    if (!parent_fits(*sweep_->plan().path[i], i)) break;
  }
  return true;
}

void Rebuilder::Impl::drop_sweep() {
  sweep_ = nullptr;
  slot_ = nullptr;
  stage_ = Stage::idle;
}

// A delta starts from exactly the table that it names, and from as many slabs.
bool Rebuilder::Impl::parent_fits(const RebuildRun& run, std::size_t place) {
  if (run.is_anchor()) return true;
  const RunPtr before = place == 0 ? nullptr : sweep_->plan().path[place - 1];
  Sha256 table = before != nullptr ? before->sealed()->table_hash : sweep_->base()->hash();
  std::size_t slabs = sweep_->base() != nullptr ? sweep_->base()->tensors.size() : sweep_->plan().path[0]->open().tensor_slabs;
  if (run.open().parent_table == table && run.open().tensor_slabs == slabs) return true;
  fail_run(*find(run.id()), fail(ErrorCode::wrong_parent, version_text(run.version()) +
                                                             ": was not made from what " +
                                                             version_text(run.open().parent) + " is here"));
  return false;
}

void Rebuilder::Impl::open_slot() {
  const RebuildPlan& plan = sweep_->plan();
  stage_ = Stage::opening;
  // A way back to the base has no run; the state file names the base itself then.
  RunId run = plan.path.empty() ? RunId{} : plan.path.back()->id();
  bool from_standby = plan.start == RebuildStart::standby;
  auto layout = plan.start == RebuildStart::copy ? sweep_->base()->bytes.layout : nullptr;
  task(
      [slot = slot_, run, version = plan.target, from_standby, layout]() -> Status {
        if (from_standby) return slot->begin_delta(run, version);
        P2PW_CHECK(slot->begin_new(run, version));
        return layout == nullptr ? Status() : slot->set_layout(layout);
      },
      [this](const Status& status) { slot_opened(status); });
}

void Rebuilder::Impl::slot_opened(Status status) {
  stage_ = status ? Stage::working : Stage::idle;
  if (!status) {
    block(status.error());
    return;
  }
  if (slot_->layout() != nullptr && sweep_->plan().start != RebuildStart::anchor) sweep_->start(*slot_);
}

// The byte slabs of the run before path[place]; null: there is none (an anchor), or it is not known yet.
const ByteTable* Rebuilder::Impl::bytes_before(std::size_t place) const {
  if (place == 0) return sweep_->base() == nullptr ? nullptr : &sweep_->base()->bytes;
  const auto& bytes = sweep_->plan().path[place - 1]->bytes;
  return bytes ? &*bytes : nullptr;
}

// Starts decoding the byte frames of the first run on the path that lacks it and has them.
bool Rebuilder::Impl::next_bytes() {
  if (bytes_busy_) return false;
  const auto& path = sweep_->plan().path;
  std::size_t place = 0;
  while (place < path.size() && path[place]->bytes) ++place;
  if (place == path.size()) return false;
  RunPtr run = path[place];
  bool ready = run->byte_frames_known() && run->byte_frames_arrived() && !run->bytes_need_all_metas;
  if (!ready) return false;
  BytesTask work;
  work.store = slots_.byte_store();
  work.source = slots_.active();
  work.layout = run->open().layout_hash;
  if (const ByteTable* before = bytes_before(place); before != nullptr && !run->is_anchor()) work.parent = *before;
  std::vector<RebuildRun::FramePlace> places;
  for (const auto& [index, frame] : run->byte_frames()) {
    work.frames.push_back(sealed_frame(*run, frame));
    places.push_back(frame);
  }
  bytes_busy_ = true;
  task([work = std::move(work)] { return run_bytes_task(work); },
       [this, run, places](BytesOutcome outcome) { bytes_decoded(run, places, std::move(outcome)); });
  return true;
}

void Rebuilder::Impl::bytes_decoded(const RunPtr& run, const std::vector<RebuildRun::FramePlace>& places,
                                    BytesOutcome outcome) {
  bytes_busy_ = false;
  const Error& error = outcome.error;
  if (outcome.table) {
    run->bytes = std::move(outcome.table);
  } else if (outcome.bad_frame) {
    RebuildRun::FramePlace place = places[*outcome.bad_frame];
    run->frame_damaged(place);
    emit([this, id = run->bundle(place).id, index = FrameIndex(place.frame), error] {
      events_.bundle_damaged(id, index, error);
    });
  } else if (error.code == ErrorCode::incomplete && !run->metas_complete()) {
    run->bytes_need_all_metas = true;
  } else if (error.code == ErrorCode::io || error.code == ErrorCode::no_space || error.code == ErrorCode::not_found) {
    block(error);
  } else {
    fail_run(run, error);
  }
}

// An anchor's tensor files are made as soon as its byte slabs are known.
void Rebuilder::Impl::prepare_layout() {
  const RebuildPlan& plan = sweep_->plan();
  if (plan.start != RebuildStart::anchor || !plan.path[0]->bytes) return;
  auto layout = plan.path[0]->bytes->layout;
  if (layout->tensor_slabs().size() != plan.path[0]->open().tensor_slabs) {
    fail_run(plan.path[0], fail(ErrorCode::malformed, version_text(plan.path[0]->version()) +
                                                          ": its layout has another number of tensor slabs than announced"));
    return;
  }
  stage_ = Stage::opening;
  task([slot = slot_, layout] { return slot->set_layout(layout); },
       [this](const Status& status) {
         stage_ = Stage::working;
         if (status) {
           sweep_->start(*slot_);
         } else {
           block(status.error());
         }
       });
}

void Rebuilder::Impl::hand_out_slabs() {
  const RebuildPlan& plan = sweep_->plan();
  if (!plan.path.empty() && plan.path[0]->complete()) locked_ = plan.target;
  std::shared_ptr<Slot> active = slots_.active();
  while (tasks_ < 2 * pool_.threads() && !plan_stale_) {
    auto work = sweep_->next();
    if (!work) return;
    if (!work->steps.empty()) locked_ = plan.target;
    SlabTask slab_task;
    slab_task.slot = slot_;
    slab_task.other = active;
    slab_task.slab = work->slab;
    slab_task.parent = work->parent;
    for (const auto& step : work->steps) slab_task.steps.push_back(sealed_frame(*plan.path[step.run], step.place));
    task([slab_task = std::move(slab_task)] { return run_slab_task(slab_task); },
         [this, work = std::move(*work), path = plan.path](SlabOutcome outcome) {
           slab_finished(work, path, std::move(outcome));
         });
  }
}

void Rebuilder::Impl::slab_finished(const RebuildSweep::Work& work, const std::vector<RunPtr>& path,
                                    SlabOutcome outcome) {
  using What = SlabOutcome::What;
  if (outcome.refilled) ++slabs_refilled_;
  if (outcome.what == What::done) {
    for (const auto& step : work.steps) ++path[step.run]->frames_applied;
    sweep_->done(work);
    return;
  }
  if (outcome.what == What::lost) {
    sweep_->lost(work.slab);
    report_lost(work.slab, outcome.error.message);
    return;
  }
  if (outcome.what == What::bad_bundle) {
    const auto& step = work.steps[outcome.step];
    path[step.run]->frame_damaged(step.place);
    emit([this, id = path[step.run]->bundle(step.place).id, index = FrameIndex(step.place.frame),
          error = outcome.error] { events_.bundle_damaged(id, index, error); });
  } else if (outcome.what == What::bad_frame) {
    fail_run(work.steps.empty() ? path.back() : path[work.steps[outcome.step].run], outcome.error);
  } else {
    block(outcome.error);
  }
  sweep_->put_back(work.slab);
}

// The target's table: the base's with the digests of all frames on the path.
std::shared_ptr<const CheckpointTable> Rebuilder::Impl::wanted_table() const {
  const RebuildPlan& plan = sweep_->plan();
  if (plan.path.empty()) return sweep_->base();
  auto table = std::make_shared<CheckpointTable>();
  if (sweep_->base() != nullptr) table->tensors = sweep_->base()->tensors;
  table->tensors.resize(slot_->layout()->tensor_slabs().size());
  for (const RunPtr& run : plan.path) run->advance(table->tensors);
  table->bytes = *plan.path.back()->bytes;
  return table;
}

void Rebuilder::Impl::try_finish() {
  if (!sweep_->settled() || tasks_ > 0 || plan_stale_) return;
  RunPtr run = target_run();
  if (run != nullptr && (!run->metas_complete() || !run->bytes)) return;
  SealHash seal;
  Sha256 table_hash;
  if (run != nullptr) {
    seal = run->seal_hash();
    table_hash = run->sealed()->table_hash;
  } else {
    // Back to the base: it is what one of the slots holds, or held.
    auto holder = sweep_->plan().start == RebuildStart::copy ? slots_.active() : slot_;
    seal = holder->seal();
    table_hash = sweep_->base()->hash();
  }
  stage_ = Stage::finishing;
  task([slot = slot_, version = sweep_->plan().target, seal, table_hash,
        want = wanted_table()] { return slot->finish(version, seal, table_hash, want); },
       [this, run](Result<Slot::Finish> result) { finished(run, std::move(result)); });
}

void Rebuilder::Impl::finished(const RunPtr& run, Result<Slot::Finish> result) {
  stage_ = Stage::working;
  if (!result) {
    if (result.error().code == ErrorCode::integrity && run != nullptr) {
      fail_run(run, result.error());
      return;
    }
    // What failed may have been the store: what is in it is made anew.
    for (const RunPtr& r : sweep_->plan().path) r->bytes.reset();
    stage_ = Stage::idle;
    block(result.error());
    plan_stale_ = true;
    drop_sweep();
    return;
  }
  if (!result->staged) {
    sweep_->doubt(result->open_slabs);
    return;
  }
  locked_ = Version();
  auto active = slots_.active_version();
  bool news = !active || result->staged->version() > active->version();
  StagedVersion staged = *result->staged;
  drop_sweep();
  plan_stale_ = true;
  clean_up();
  emit([this, staged, news] {
    if (news) {
      events_.version_staged(staged);
    } else {
      events_.standby_caught_up(staged.version());
    }
  });
}

// Forgets runs that both slots have passed, and byte slabs that nobody refers to.
void Rebuilder::Impl::clean_up() {
  for (auto it = runs_.begin(); it != runs_.end();) {
    RunPtr run = it->second;
    if (needs(*run)) {
      ++it;
      continue;
    }
    std::erase_if(bundles_, [&](const auto& entry) { return entry.second.first == run; });
    it = runs_.erase(it);
  }
  if (bytes_busy_) return;
  std::set<Digest> keep;
  for (const auto& slot : {slots_.active(), slots_.standby()}) {
    auto table = slot == nullptr ? nullptr : slot->table();
    if (table != nullptr) keep.insert(table->bytes.digests.begin(), table->bytes.digests.end());
  }
  for (const auto& [id, run] : runs_) {
    if (run->bytes) keep.insert(run->bytes->digests.begin(), run->bytes->digests.end());
  }
  slots_.byte_store()->keep_only(keep);
}

bool Rebuilder::Impl::needs(const RebuildRun& run) const { return needs(run.version()); }

bool Rebuilder::Impl::needs(Version version) const {
  auto active = slots_.active();
  Version active_version = active == nullptr ? Version() : active->version();
  Version standby_version = slots_.standby()->version();
  // An empty standby is filled from the active slot.
  bool copied = active != nullptr && (standby_version.value() == 0 ||
                                      (sweep_ != nullptr && sweep_->plan().start == RebuildStart::copy));
  if (copied) return version > active_version;
  return version > std::min(active == nullptr ? standby_version : active_version, standby_version);
}

RebuildProgress Rebuilder::Impl::progress() const {
  RebuildProgress progress;
  progress.blocked = blocked_;
  progress.waiting_for_slot = waiting_for_slot_;
  progress.tasks = tasks_;
  progress.slabs_refilled = slabs_refilled_;
  if (sweep_ == nullptr) return progress;
  progress.target = sweep_->plan().target;
  progress.slabs_lost = sweep_->lost_slabs().size();
  auto active = slots_.active_version();
  progress.catching_up = active && progress.target <= active->version();
  if (RunPtr run = target_run()) {
    progress.frames_known = run->frames();
    progress.frames_arrived = run->frames_arrived();
    progress.frames_applied = run->frames_applied;
  }
  return progress;
}

// --- the outside -----------------------------------------------------------------------------------------------------

Rebuilder::Rebuilder(SlotPair& slots, WorkPool& pool, RebuildEvents& events)
    : impl_(std::make_unique<Impl>(slots, pool, events)) {}
Rebuilder::~Rebuilder() = default;

void Rebuilder::open_run(const RunId& run, const OpenRecord& open, std::shared_ptr<const FrameSealer> sealer) {
  impl_->open_run(run, open, std::move(sealer));
}
void Rebuilder::add_bundle(const BundleId& id, const BundleRecord& record, std::shared_ptr<const BundleMeta> meta,
                           std::shared_ptr<BundleFile> file) {
  impl_->add_bundle(id, {id, record, std::move(meta), std::move(file), {}}, record.run);
}
void Rebuilder::chunk_arrived(const BundleId& id, ChunkIndex chunk) { impl_->chunk_arrived(id, chunk); }
void Rebuilder::seal_run(const RunId& run, const SealRecord& seal, const SealHash& hash) {
  impl_->seal_run(run, seal, hash);
}
void Rebuilder::drop_run(const RunId& run) { impl_->drop_run(run); }
void Rebuilder::slots_changed() { impl_->slots_changed(); }
void Rebuilder::retry() { impl_->retry(); }
void Rebuilder::slab_arrived(std::uint32_t slab, Bytes bytes, const Digest& digest) {
  impl_->slab_arrived(slab, std::move(bytes), digest);
}
bool Rebuilder::needs(const RunId& run) const {
  const auto* found = impl_->find(run);
  return found != nullptr && impl_->needs(**found);
}
bool Rebuilder::needs(Version version) const { return impl_->needs(version); }
RebuildProgress Rebuilder::progress() const { return impl_->progress(); }

}  // namespace p2pw
