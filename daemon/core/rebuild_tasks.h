// What a Rebuilder does on the pool: values in, values out. Nothing here knows the plan.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "chunker/slot.h"
#include "daemon/core/rebuild_run.h"

namespace p2pw {

// A sealed frame where it lies.
struct SealedFrame {
  std::shared_ptr<const BundleFile> file;
  std::shared_ptr<const FrameSealer> sealer;
  BundleIndex bundle;
  FrameIndex index;
  FrameEntry entry;
};
SealedFrame sealed_frame(const RebuildRun& run, RebuildRun::FramePlace place);

// How a frame's bytes are read. Others may write bundle files, too: the swarm's process, which a member may have taken
// over, who can also seal frames. So plain bytes that opened and then led astray prove nothing about the publisher: only
// the same with bytes that were hashed in memory does.
enum class Reading : std::uint8_t { plain, hashed };
// Reads and opens it. Errors: io; integrity (the bundle file is damaged).
Status open_frame(const SealedFrame& frame, Reading reading, Bytes& sealed, Bytes& plain);

struct SlabTask {
  std::shared_ptr<Slot> slot;
  std::shared_ptr<const Slot> other;  // to refill from; may be null
  std::uint32_t slab = 0;
  std::optional<Digest> parent;
  std::vector<SealedFrame> steps;
};
struct SlabOutcome {
  enum class What : std::uint8_t {
    done,
    lost,           // the slab is damaged and the other slot has nothing of use
    bad_bundle,     // step `step` does not open, or its chunks are not what they were
    bad_frame,      // step `step` opens, but does not lead where its meta says; its bytes were hashed
    failed,         // disk full, disk error
  };
  What what = What::done;
  std::size_t step = 0;
  bool refilled = false;
  Error error;
};
SlabOutcome run_slab_task(const SlabTask& task);

struct BytesTask {
  std::shared_ptr<ByteStore> store;
  std::shared_ptr<const Slot> source;  // whole: its files can make up for a damaged store; may be null
  std::optional<ByteTable> parent;
  std::vector<SealedFrame> frames;
  LayoutHash layout;
};
struct BytesOutcome {
  std::optional<ByteTable> table;
  std::optional<std::size_t> bad_frame;  // does not open, or its chunks are not what they were
  Error error;
};
BytesOutcome run_bytes_task(const BytesTask& task);

}  // namespace p2pw
