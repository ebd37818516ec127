// What a delta changes, as one safetensors file that other tools read: for each tensor T with changes, T.indices (I64,
// into the flattened tensor, rising) and T.values (T's dtype), the new values there. `__metadata__` names the digests of
// the checkpoints that it leads from and to, and this format.
#pragma once

#include "chunker/delta_file.h"

namespace p2pw {

struct SparseSummary {
  std::uint64_t bytes = 0;     // of the file
  std::uint64_t tensors = 0;   // with changes
  std::uint64_t elements = 0;  // that changed; of F4 both of a byte
};

// `parent` must be the delta's parent, all of it. Memory does not grow with the checkpoint. Errors: usage (an anchor),
// unsupported (a changed tensor of 6-bit elements, which have no bytes of their own), wrong_parent, those of apply.
Result<SparseSummary> export_sparse(const std::filesystem::path& parent, const DeltaFile& delta,
                                    const std::filesystem::path& target, const std::function<bool()>& stop);

}  // namespace p2pw
