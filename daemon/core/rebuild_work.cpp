#include <algorithm>

#include "daemon/core/rebuild_impl.h"

namespace p2pw {
namespace {

SlotView view_of(const std::shared_ptr<Slot>& slot) {
  if (slot == nullptr) return {};
  return {slot->version(), slot->phase() == Slot::Phase::whole && !slot->distrusted()};
}

std::string version_text(Version version) { return "version " + std::to_string(version.value()); }

}  // namespace

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
  for (const auto& [id, run] : runs_) {
    if (!avoids(id)) runs.push_back(run);
  }
  std::shared_ptr<Slot> standby = slots_.standby();
  RebuildPlan plan = plan_rebuild(view_of(standby), view_of(slots_.active()), runs, locked_,
                                  offer_ ? offer_->version : Version(),
                                  offer_ ? offer_->table->bytes.layout->total_bytes() : 0);
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
  if (plan.start == RebuildStart::neighbours) base = offer_->table;
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
  bool copied = plan.start == RebuildStart::copy || plan.start == RebuildStart::neighbours;
  auto layout = copied ? sweep_->base()->bytes.layout : nullptr;
  task(
      [slots = &slots_, slot = slot_, run, version = plan.target, from_standby, layout]() -> Status {
        P2PW_CHECK(slots->vacate());
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
    // The base itself: what one of the slots holds, or held, or what the neighbours hold.
    RebuildStart start = sweep_->plan().start;
    auto holder = start == RebuildStart::copy ? slots_.active() : slot_;
    seal = start == RebuildStart::neighbours ? offer_->seal : holder->seal();
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
  offer_.reset();
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
    if (needs(run->version())) {
      ++it;
      continue;
    }
    std::erase_if(bundles_, [&](const auto& entry) { return entry.second.first == run; });
    avoided_.erase(it->first);
    it = runs_.erase(it);
  }
  if (bytes_busy_) return;
  std::set<Digest> keep;
  if (offer_) keep.insert(offer_->table->bytes.digests.begin(), offer_->table->bytes.digests.end());
  for (const auto& slot : {slots_.active(), slots_.standby()}) {
    auto table = slot == nullptr ? nullptr : slot->table();
    if (table != nullptr) keep.insert(table->bytes.digests.begin(), table->bytes.digests.end());
  }
  for (const auto& [id, run] : runs_) {
    if (run->bytes) keep.insert(run->bytes->digests.begin(), run->bytes->digests.end());
  }
  slots_.byte_store()->keep_only(keep);
}

bool Rebuilder::Impl::needs(Version version) const {
  if (sweep_ != nullptr && sweep_->plan().start == RebuildStart::neighbours) return version > sweep_->plan().base;
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
  progress.copying = sweep_->plan().start == RebuildStart::neighbours;
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

}  // namespace p2pw
