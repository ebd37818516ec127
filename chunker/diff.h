// From checkpoint directories to frames: the pipeline that `p2pw diff` and `p2pw seed` share.
//
// Slabs are encoded by worker threads, each checked by decoding it again, and come out in slab order: byte slabs first,
// then tensor slabs. Memory is bounded by a window of slabs in flight, whatever the size of the checkpoint. The output is
// the same for any number of threads.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "chunker/bundle_builder.h"
#include "chunker/layout.h"

namespace p2pw {

// One slab that needs a frame.
struct Frame {
  SlabId slab;
  Dtype dtype = Dtype::bytes;
  Digest digest;  // of the slab after this frame
  std::uint64_t elements = 0;
  std::uint64_t changed_elements = 0;
  Bytes bytes;  // the frame; a sink's finish() may replace it by the sealed one
  BundleBuilder::Place place{};  // for sinks that seal
};

// What becomes of the frames.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  // In slab order, one call at a time, from any thread, under a lock: must be cheap.
  virtual void place(Frame&) {}
  // After place(), from worker threads, several at once, in any order: sealing.
  virtual void finish(Frame&) {}
  // In slab order, on the thread that called diff(). An error ends the run.
  virtual Status take(Frame&& frame) = 0;
  // Bytes of the new checkpoint done so far, on the same thread.
  virtual void progress(std::uint64_t) {}
};

// A checkpoint to read, and what is known about it.
struct CheckpointView {
  std::filesystem::path directory;
  const Layout* layout = nullptr;
};

// The digests of all slabs of a checkpoint.
struct SlabDigests {
  std::vector<Digest> byte_slabs, tensor_slabs;
  Sha256 table_hash(const LayoutHash& layout) const { return slab_table_hash(layout, byte_slabs, tensor_slabs); }
};

struct DiffOptions {
  unsigned threads = 0;      // 0: all
  bool self_check = true;    // decode every frame and compare, before it is handed on
  std::function<bool()> stop;  // asked now and then; true ends the run with ErrorCode::interrupted
  // Told, on any thread, which slab of the parent is not what is known of it, before the run ends with
  // integrity.
  std::function<void(SlabId)> parent_damaged;
};

struct DiffResult {
  SlabDigests digests;         // of the new checkpoint
  SlabDigests parent_digests;  // delta only
  std::uint64_t changed_elements = 0;  // of tensors
  std::uint64_t frames = 0;
};

// The frames that lead from `parent` to `now` (delta), or to `now` from nothing (anchor: `parent` is not read).
// `known_parent`: digests of the parent from its slot's table; without them they are computed.
// Errors: bad_input (a delta between layouts without the same tensor slabs; a file that changes meanwhile), io,
// integrity (a frame that does not decode to what was encoded; a parent that is not what its table says), interrupted,
// whatever the sink answers.
Result<DiffResult> diff_delta(const CheckpointView& parent, const SlabDigests* known_parent, const CheckpointView& now,
                              const DiffOptions& options, FrameSink& sink);
Result<DiffResult> diff_anchor(const CheckpointView& now, const DiffOptions& options, FrameSink& sink);

// Which kind suits, from a sample of slabs: an anchor for a changed layout, or when the delta would not be clearly
// smaller.
struct KindChoice {
  Kind kind = Kind::anchor;
  std::uint64_t expected_bytes = 0;  // of all frames, scaled up from the sample
};
Result<KindChoice> choose_kind(const CheckpointView& parent, const CheckpointView& now);

// Reads a whole checkpoint and computes its digests. Errors: io, bad_input, interrupted.
Result<SlabDigests> digest_checkpoint(const CheckpointView& checkpoint, const DiffOptions& options);

}  // namespace p2pw
