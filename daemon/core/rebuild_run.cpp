#include "daemon/core/rebuild_run.h"

#include <algorithm>

#include "protocol/limits.h"

namespace p2pw {

RebuildRun::RebuildRun(const RunId& id, const OpenRecord& open, std::shared_ptr<const FrameSealer> sealer)
    : id_(id), open_(open), sealer_(std::move(sealer)), tensor_frames_(open.tensor_slabs) {}

Result<std::shared_ptr<RebuildRun>> RebuildRun::make(const RunId& id, const OpenRecord& open,
                                                     std::shared_ptr<const FrameSealer> sealer) {
  if (open.tensor_slabs > limits::kMaxSlabs) {
    return fail(ErrorCode::limit, "version " + std::to_string(open.version.value()) + " announces " +
                                      std::to_string(open.tensor_slabs) + " tensor slabs, more than allowed");
  }
  return std::shared_ptr<RebuildRun>(new RebuildRun(id, open, std::move(sealer)));
}

Status RebuildRun::note_frame(FramePlace place, const FrameEntry& entry) {
  std::uint32_t index = entry.slab.index();
  bool good = false;
  if (entry.slab.is_bytes()) {
    good = index < limits::kMaxSlabs && byte_frames_.emplace(index, place).second;
  } else if (index < tensor_frames_.size() && !tensor_frames_[index]) {
    tensor_frames_[index] = place;
    ++tensor_frame_count_;
    good = true;
  }
  if (good) return {};
  return fail(ErrorCode::malformed, "version " + std::to_string(version().value()) + ", bundle " +
                                        std::to_string(place.bundle) + ", frame " + std::to_string(place.frame) +
                                        ": its slab does not exist or has a frame already");
}

Status RebuildRun::add_bundle(Bundle bundle, std::vector<std::uint32_t>& slabs) {
  std::uint32_t index = bundle.record.index.value();
  if (auto known = bundles_.find(index); known != bundles_.end()) {
    if (known->second.id != bundle.id) {
      return fail(ErrorCode::malformed, "version " + std::to_string(version().value()) + " has two bundles " +
                                            std::to_string(index));
    }
    known->second.file = std::move(bundle.file);
    look_at(index, 0, ~std::uint64_t(0), slabs);
    return {};
  }
  const std::vector<FrameEntry>& frames = bundle.meta->frames;
  bool late_bytes = tensor_seen_ && !frames.empty() && frames.front().slab.is_bytes();
  if (late_bytes || index >= limits::kMaxBundles) {
    return fail(ErrorCode::malformed, "version " + std::to_string(version().value()) + ", bundle " +
                                          std::to_string(index) + ": comes out of order");
  }
  for (std::uint32_t i = 0; i < frames.size(); ++i) P2PW_CHECK(note_frame({index, i}, frames[i]));
  frames_ += frames.size();
  bundle.arrived.assign(frames.size(), false);
  bundles_.emplace(index, std::move(bundle));
  note_order();
  look_at(index, 0, ~std::uint64_t(0), slabs);
  return {};
}

void RebuildRun::note_order() {
  for (auto next = bundles_.find(contiguous_); next != bundles_.end(); next = bundles_.find(++contiguous_)) {
    const auto& frames = next->second.meta->frames;
    tensor_seen_ = tensor_seen_ || (!frames.empty() && !frames.back().slab.is_bytes());
  }
}

void RebuildRun::chunk_arrived(std::uint32_t bundle, ChunkIndex chunk, std::vector<std::uint32_t>& slabs) {
  auto found = bundles_.find(bundle);
  if (found == bundles_.end()) return;
  const auto& frames = found->second.meta->frames;
  std::uint64_t begin = std::uint64_t(chunk.value()) * found->second.record.chunk_bytes;
  std::uint64_t end = begin + found->second.record.chunk_bytes;
  // Frames lie end to end: the first that reaches into the chunk, by its end.
  auto first = std::partition_point(frames.begin(), frames.end(),
                                    [&](const FrameEntry& f) { return f.offset + f.length <= begin; });
  look_at(bundle, static_cast<std::size_t>(first - frames.begin()), end, slabs);
}

// Marks frames from `first_frame` that begin before `end` and are covered by chunks.
void RebuildRun::look_at(std::uint32_t bundle, std::size_t first_frame, std::uint64_t end,
                         std::vector<std::uint32_t>& slabs) {
  Bundle& b = bundles_.at(bundle);
  for (std::size_t i = first_frame; i < b.meta->frames.size(); ++i) {
    const FrameEntry& frame = b.meta->frames[i];
    if (frame.offset >= end) break;
    if (b.arrived[i] || !b.file->covers(frame.offset, frame.length)) continue;
    b.arrived[i] = true;
    ++arrived_;
    if (!frame.slab.is_bytes()) slabs.push_back(frame.slab.index());
  }
}

void RebuildRun::frame_damaged(FramePlace place) {
  Bundle& b = bundles_.at(place.bundle);
  if (!b.arrived[place.frame]) return;
  b.arrived[place.frame] = false;
  --arrived_;
}

void RebuildRun::seal(const SealRecord& seal, const SealHash& hash) {
  seal_ = seal;
  seal_hash_ = hash;
}

std::uint64_t RebuildRun::missing_bytes() const {
  std::uint64_t known = 0, missing = 0;
  for (const auto& [index, bundle] : bundles_) {
    for (std::size_t i = 0; i < bundle.arrived.size(); ++i) {
      std::uint64_t length = bundle.meta->frames[i].length;
      known += length;
      if (!bundle.arrived[i]) missing += length;
    }
  }
  if (!seal_ || metas_complete()) return missing;
  return missing + (seal_->delta_bytes > known ? seal_->delta_bytes - known : 0);
}

std::optional<RebuildRun::FramePlace> RebuildRun::tensor_frame(std::uint32_t slab) const {
  return slab < tensor_frames_.size() ? tensor_frames_[slab] : std::nullopt;
}

void RebuildRun::advance(std::vector<Digest>& tensors) const {
  for (const auto& [index, bundle] : bundles_) {
    for (const FrameEntry& frame : bundle.meta->frames) {
      if (!frame.slab.is_bytes() && frame.slab.index() < tensors.size()) tensors[frame.slab.index()] = frame.digest;
    }
  }
}

bool RebuildRun::byte_frames_arrived() const {
  return std::all_of(byte_frames_.begin(), byte_frames_.end(), [&](const auto& f) { return arrived(f.second); });
}

}  // namespace p2pw
