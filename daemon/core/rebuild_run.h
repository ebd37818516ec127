// What a Rebuilder knows of one run: its bundles, which frame each slab has, and which frames are in.
//
// Threads: control thread. Bundles' files, metas and the sealer are shared with tasks on the pool.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "chunker/bundle_file.h"
#include "chunker/checkpoint_table.h"
#include "protocol/record.h"
#include "protocol/sealing.h"

namespace p2pw {

class RebuildRun {
 public:
  struct Bundle {
    BundleId id;
    BundleRecord record;
    std::shared_ptr<const BundleMeta> meta;
    std::shared_ptr<BundleFile> file;
    std::vector<bool> arrived;  // by frame
  };
  // A frame by its place: bundle and number in it.
  struct FramePlace {
    std::uint32_t bundle = 0, frame = 0;
  };

  // Errors: limit.
  static Result<std::shared_ptr<RebuildRun>> make(const RunId& id, const OpenRecord& open,
                                                  std::shared_ptr<const FrameSealer> sealer);

  const RunId& id() const { return id_; }
  const OpenRecord& open() const { return open_; }
  Version version() const { return open_.version; }
  bool is_anchor() const { return open_.kind == Kind::anchor; }
  const std::shared_ptr<const FrameSealer>& sealer() const { return sealer_; }

  // Tensor slabs whose frame has arrived thereby are appended to `slabs`. A known bundle gets its file replaced.
  // Errors: malformed (frames that contradict the run).
  Status add_bundle(Bundle bundle, std::vector<std::uint32_t>& slabs);
  void chunk_arrived(std::uint32_t bundle, ChunkIndex chunk, std::vector<std::uint32_t>& slabs);
  void frame_damaged(FramePlace place);
  void seal(const SealRecord& seal, const SealHash& hash);

  const std::optional<SealRecord>& sealed() const { return seal_; }
  const SealHash& seal_hash() const { return seal_hash_; }
  bool metas_complete() const { return seal_ && bundles_.size() == seal_->bundles; }
  // An anchor has a frame for every tensor slab.
  bool lacks_frames() const {
    return is_anchor() && metas_complete() && tensor_frame_count_ != tensor_frames_.size();
  }
  bool complete() const { return metas_complete() && arrived_ == frames_; }

  std::optional<FramePlace> tensor_frame(std::uint32_t slab) const;
  bool arrived(FramePlace place) const { return bundle(place).arrived[place.frame]; }
  const Bundle& bundle(FramePlace place) const { return bundles_.at(place.bundle); }
  const FrameEntry& entry(FramePlace place) const { return bundle(place).meta->frames[place.frame]; }
  // Replaces the digests of the slabs that have frames.
  void advance(std::vector<Digest>& tensors) const;

  // All byte frames are known: they come first, so a tensor frame after them, or the seal, tells.
  bool byte_frames_known() const { return tensor_seen_ || metas_complete(); }
  bool byte_frames_arrived() const;
  const std::map<std::uint32_t, FramePlace>& byte_frames() const { return byte_frames_; }

  // Of its bundles, what is not here yet, about; 0 while nothing is known of its size.
  std::uint64_t missing_bytes() const;
  std::uint64_t frames() const { return frames_; }
  std::uint64_t frames_arrived() const { return arrived_; }

  // Set by the Rebuilder.
  std::optional<ByteTable> bytes;
  bool bytes_need_all_metas = false;  // decoding the byte frames said that one is missing
  bool failed = false;
  std::uint64_t frames_applied = 0;

 private:
  RebuildRun(const RunId& id, const OpenRecord& open, std::shared_ptr<const FrameSealer> sealer);
  Status note_frame(FramePlace place, const FrameEntry& entry);
  void note_order();
  void look_at(std::uint32_t bundle, std::size_t first_frame, std::uint64_t end, std::vector<std::uint32_t>& slabs);

  RunId id_;
  OpenRecord open_;
  std::shared_ptr<const FrameSealer> sealer_;
  std::optional<SealRecord> seal_;
  SealHash seal_hash_;
  std::map<std::uint32_t, Bundle> bundles_;
  std::vector<std::optional<FramePlace>> tensor_frames_;
  std::map<std::uint32_t, FramePlace> byte_frames_;
  std::uint64_t frames_ = 0, arrived_ = 0;
  std::size_t tensor_frame_count_ = 0;
  std::uint32_t contiguous_ = 0;  // bundles 0 to here are known
  bool tensor_seen_ = false;
};

}  // namespace p2pw
