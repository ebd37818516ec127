// The layout of a checkpoint: its files, its tensors, and the slab table that follows from them. Trainer and nodes
// compute the same table from the same bytes, so slabs need no description on the wire.
//
// Slabs. Byte slabs come first in every walk: number 0 is the file table (chunker/file_table.h), then the verbatim
// safetensors header of each tensor file, then the side files, in file order, each cut at limits::kSlabBytes. Tensor
// slabs are numbered apart: each is a run of whole elements of one dtype in one tensor file, at most limits::kSlabBytes,
// possibly many adjacent tensors; a tensor file is cut greedily, and a change of dtype ends a slab. Files are ordered by
// path, byte-wise. Empty folders are not part of a checkpoint.
#pragma once

#include <filesystem>

#include "chunker/dtype.h"
#include "chunker/file_table.h"
#include "protocol/ids.h"

namespace p2pw {

class Layout {
 public:
  const std::vector<FileEntry>& files() const { return table_.files(); }
  const std::vector<Slab>& byte_slabs() const { return table_.byte_slabs(); }
  const std::vector<Slab>& tensor_slabs() const { return tensor_slabs_; }
  const FileTable& table() const { return table_; }
  const Bytes& file_table() const { return table_.encoded(); }
  const LayoutHash& hash() const { return hash_; }  // SHA-256 over the file table and every header, in order
  std::uint64_t total_bytes() const { return table_.total_bytes(); }  // of all files
  std::uint64_t total_elements() const { return total_elements_; }    // of all tensors, as element_bytes() counts

  const Slab* find(SlabId id) const;
  // Same tensor files with the same header sizes and tensor slabs: a delta can lead from the other to this one.
  bool same_tensor_slabs(const Layout& other) const;
  // The byte slab of the other layout that has this one's role (same file, same place); null: none, parent is empty.
  const Slab* counterpart(const Slab& byte_slab, const Layout& other) const {
    return table_.counterpart(byte_slab, other.table_);
  }

  // Of a directory that the user named. Strict: every rule of the safetensors format, index.json checked against the
  // shards, no links out of the directory, nothing but regular files. Errors: bad_input, naming file, tensor and reason.
  static Result<Layout> scan(const std::filesystem::path& directory);

  // Of bytes from outside: the file table, then headers one by one in file order. Errors: malformed, limit, unsupported.
  static Result<Layout> from_parts(ByteView file_table, std::vector<Bytes> headers);

 private:
  friend class LayoutBuilder;
  Layout() = default;
  FileTable table_;
  std::vector<Slab> tensor_slabs_;
  LayoutHash hash_;
  std::uint64_t total_elements_ = 0;
};

// SHA-256 over layout hash, then the digests of all byte slabs, then of all tensor slabs: the sealed digest that
// SealRecord::table_hash states.
Sha256 slab_table_hash(const LayoutHash& layout, std::span<const Digest> byte_slabs,
                       std::span<const Digest> tensor_slabs);

}  // namespace p2pw
