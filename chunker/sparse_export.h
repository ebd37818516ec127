// What a delta changes, as one safetensors file that other tools read: for each tensor T with changes, T.indices (I64,
// into the flattened tensor, rising) and T.values (T's dtype), the new values there. Several versions fold into one.
//
// `__metadata__` holds what a reader needs to check itself: `format` = "p2pw-sparse-1", `parent_table_hash` and
// `table_hash` (the sealed slab tables of the checkpoints that it leads from and to), `parent_version` and `version` where
// they are known, and `sha256_before` and `sha256`, each a JSON object as text: for each changed tensor the SHA-256 of its
// bytes before and after.
#pragma once

#include <span>

#include "chunker/delta_file.h"

namespace p2pw {

struct SparseSummary {
  std::uint64_t bytes = 0;     // of the file
  std::uint64_t tensors = 0;   // with changes
  std::uint64_t elements = 0;  // that changed; of F4 both of a byte
};

// `parent` must be the parent of the first delta, all of it; each further one continues the one before. Memory does not grow with the checkpoint. Errors: usage (an anchor),
// unsupported (a changed tensor of 6-bit elements, which have no bytes of their own), wrong_parent, those of apply.
Result<SparseSummary> export_sparse(const std::filesystem::path& parent, std::span<const DeltaFile> deltas,
                                    const std::filesystem::path& target, const std::function<bool()>& stop);
Result<SparseSummary> export_sparse(const std::filesystem::path& parent, const DeltaFile& delta,
                                    const std::filesystem::path& target, const std::function<bool()>& stop);

// The same from two checkpoints that stand complete on the disk. Errors: unsupported (other tensors), those of reading.
struct SparseEnds {
  std::filesystem::path before, after;
  Sha256 table_before, table_after;
  std::uint64_t version_before = 0, version_after = 0;  // 0 = not known
};
Result<SparseSummary> export_sparse(const SparseEnds& ends, const std::filesystem::path& target,
                                    const std::function<bool()>& stop);

}  // namespace p2pw
