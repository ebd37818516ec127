#include "daemon/core/rebuild_sweep.h"

namespace p2pw {

RebuildSweep::RebuildSweep(RebuildPlan plan, std::shared_ptr<const CheckpointTable> base)
    : plan_(std::move(plan)), base_(std::move(base)) {}

void RebuildSweep::start(const Slot& slot) {
  started_ = true;
  slabs_.assign(slot.layout()->tensor_slabs().size(), SlabWork{});
  for (std::uint32_t i = 0; i < slabs_.size(); ++i) {
    if (auto digest = slot.known_digest(i)) {
      place_by_digest(i, *digest);
    } else {
      slabs_[i].unsure = true;
    }
  }
  rescan();
}

// A slab may be ahead: a sweep before this one, with the same runs, got that far.
void RebuildSweep::place_by_digest(std::uint32_t slab, const Digest& digest) {
  SlabWork& work = slabs_[slab];
  bool found = base_ != nullptr && base_->tensors[slab] == digest;
  for (std::uint32_t i = 0; i < plan_.path.size(); ++i) {
    auto frame = plan_.path[i]->tensor_frame(slab);
    if (!frame || plan_.path[i]->entry(*frame).digest != digest) continue;
    found = true;
    work.place = i + 1;
  }
  work.unsure = !found;
}

RebuildSweep::Work RebuildSweep::work_for(std::uint32_t slab) const {
  Work work;
  work.slab = slab;
  work.from = work.reach = slabs_[slab].place;
  if (base_ != nullptr) work.parent = base_->tensors[slab];
  // The digest at the place: that of the last frame up to it.
  for (std::size_t i = work.from; i > 0; --i) {
    if (auto frame = plan_.path[i - 1]->tensor_frame(slab)) {
      work.parent = plan_.path[i - 1]->entry(*frame).digest;
      break;
    }
  }
  for (std::size_t i = work.from; i < plan_.path.size(); ++i) {
    const RebuildRun& run = *plan_.path[i];
    if (auto frame = run.tensor_frame(slab)) {
      if (!run.arrived(*frame)) break;
      work.steps.push_back({i, *frame, run.entry(*frame).digest});
    } else if (run.is_anchor() || !run.metas_complete()) {
      break;
    }
    work.reach = i + 1;
  }
  return work;
}

bool RebuildSweep::worthwhile(const Work& work) const {
  bool to_target = work.reach == plan_.path.size();
  if (work.steps.empty()) {
    // Only to be looked at. A frame that is still to come would do that on its way, except in a copy, where every slab
    // has a long way to go.
    bool copied = plan_.start == RebuildStart::copy || plan_.start == RebuildStart::neighbours;
    return slabs_[work.slab].unsure && (to_target || copied);
  }
  return to_target || (work.from < plan_.active_at && work.reach >= plan_.active_at);
}

void RebuildSweep::refresh(std::uint32_t slab) {
  if (slab >= slabs_.size()) return;
  SlabWork& state = slabs_[slab];
  if (state.busy || state.lost || state.queued) return;
  Work work = work_for(slab);
  if (!state.unsure && work.steps.empty()) state.place = static_cast<std::uint32_t>(work.reach);
  bool settled = !state.unsure && state.place == plan_.path.size();
  if (settled != state.settled) {
    state.settled = settled;
    settled_ = settled ? settled_ + 1 : settled_ - 1;
  }
  if (settled || !worthwhile(work)) return;
  state.queued = true;
  (work.steps.empty() ? unsure_ : ready_).push_back(slab);
}

void RebuildSweep::rescan() {
  for (std::uint32_t i = 0; i < slabs_.size(); ++i) refresh(i);
}

std::optional<RebuildSweep::Work> RebuildSweep::next() {
  while (has_next()) {
    std::deque<std::uint32_t>& queue = ready_.empty() ? unsure_ : ready_;
    std::uint32_t slab = queue.front();
    queue.pop_front();
    slabs_[slab].queued = false;
    // More frames may have come since it was queued, or one was taken back.
    Work work = work_for(slab);
    if (!worthwhile(work)) {
      refresh(slab);
      continue;
    }
    slabs_[slab].busy = true;
    return work;
  }
  return std::nullopt;
}

void RebuildSweep::done(const Work& work) {
  SlabWork& state = slabs_[work.slab];
  state.busy = state.unsure = false;
  state.place = static_cast<std::uint32_t>(work.reach);
  refresh(work.slab);
}

void RebuildSweep::put_back(std::uint32_t slab) {
  // From the start of the path, so that whatever the other slot has is on its chain.
  slabs_[slab].busy = false;
  slabs_[slab].unsure = true;
  slabs_[slab].place = 0;
  refresh(slab);
}

void RebuildSweep::lost(std::uint32_t slab) {
  slabs_[slab].busy = false;
  slabs_[slab].unsure = slabs_[slab].lost = true;
}

void RebuildSweep::found(std::uint32_t slab) {
  if (slab >= slabs_.size()) return;
  slabs_[slab].lost = false;
  // It may have come back at any version of the path.
  slabs_[slab].place = 0;
  refresh(slab);
}

void RebuildSweep::doubt(const std::vector<std::uint32_t>& slabs) {
  for (std::uint32_t slab : slabs) {
    slabs_[slab].unsure = true;
    slabs_[slab].place = 0;
    refresh(slab);
  }
}

std::vector<std::uint32_t> RebuildSweep::lost_slabs() const {
  std::vector<std::uint32_t> lost;
  for (std::uint32_t i = 0; i < slabs_.size(); ++i) {
    if (slabs_[i].lost) lost.push_back(i);
  }
  return lost;
}

std::vector<std::pair<Version, Digest>> RebuildSweep::wanted(std::uint32_t slab) const {
  std::vector<std::pair<Version, Digest>> wanted;
  Digest digest;
  if (base_ != nullptr) wanted.emplace_back(plan_.base, digest = base_->tensors[slab]);
  for (const auto& run : plan_.path) {
    auto frame = run->tensor_frame(slab);
    if (!frame && (!run->metas_complete() || digest.is_zero())) break;
    if (frame) digest = run->entry(*frame).digest;
    wanted.emplace_back(run->version(), digest);
  }
  return wanted;
}

}  // namespace p2pw
