// From a delta file to a checkpoint directory, and the check of a directory against one.
#pragma once

#include "chunker/delta_file.h"

namespace p2pw {

struct ApplyOptions {
  unsigned threads = 0;                          // 0: all
  std::function<bool()> stop;                    // true ends the run with ErrorCode::interrupted
  std::function<void(std::uint64_t)> progress;   // bytes of the new checkpoint written so far; from any thread
};

// Writes the checkpoint that `delta` leads to from the one in `parent` (not read for an anchor) to `target`, which must
// not exist or be an empty folder. All slabs are checked, of the parent too, before the directory gets its name; after an
// error there is none. Errors: wrong_parent, naming the file; integrity, malformed, unsupported, limit for a bad delta;
// bad_input for a bad directory; io, no_space, interrupted. Returns the new layout.
Result<Layout> apply_delta(const std::filesystem::path& parent, const DeltaFile& delta,
                           const std::filesystem::path& target, const ApplyOptions& options);

// The checkpoint in `directory` is the one that `delta` leads to. Errors: integrity, naming the first file that differs.
Status check_leads_to(const DeltaFile& delta, const std::filesystem::path& directory, const Layout& layout,
                      const SlabDigests& digests);

}  // namespace p2pw
