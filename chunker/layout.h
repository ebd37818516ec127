// The layout of a checkpoint: its files, its tensors, and the slab table that follows from them. Trainer and nodes
// compute the same table from the same bytes, so slabs need no description on the wire.
//
// Slabs. Byte slabs come first in every walk: number 0 is the file table (a serialized list of files with their sizes),
// then the verbatim safetensors header of each tensor file, then the side files, in file order, each cut at
// limits::kSlabBytes. Tensor slabs are numbered apart: each is a run of whole elements of one dtype in one tensor file,
// at most limits::kSlabBytes, possibly many adjacent tensors; a tensor file is cut greedily, and a change of dtype ends
// a slab. Files are ordered by path, byte-wise.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "chunker/dtype.h"
#include "protocol/ids.h"

namespace p2pw {

struct TensorEntry {
  std::string name;
  Dtype dtype = Dtype::bytes;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0;  // in the file, header included
  std::uint64_t end = 0;
};

struct FileEntry {
  std::string path;  // relative, '/'-separated, checked: no "..", not absolute, no NUL, no empty part
  std::uint64_t size = 0;
  std::uint64_t header_bytes = 0;    // tensor files: 8 + JSON; 0 for a side file
  std::vector<TensorEntry> tensors;  // by offset; empty for a side file
  bool is_tensor_file() const { return header_bytes != 0; }
};

struct Slab {
  SlabId id;
  std::uint32_t file = 0;    // index into files(); unused for the file table
  std::uint64_t offset = 0;  // in the file; in the file table for slab bytes(0)
  std::uint32_t length = 0;
  Dtype dtype = Dtype::bytes;
};

class Layout {
 public:
  const std::vector<FileEntry>& files() const { return files_; }
  const std::vector<Slab>& byte_slabs() const { return byte_slabs_; }
  const std::vector<Slab>& tensor_slabs() const { return tensor_slabs_; }
  const Bytes& file_table() const { return file_table_; }
  const LayoutHash& hash() const { return hash_; }  // SHA-256 over the file table and every header, in order
  std::uint64_t total_bytes() const;                // of all files
  std::uint64_t total_elements() const;             // of all tensors, as element_bytes() counts

  const Slab* find(SlabId id) const;
  // Same tensor files with the same header sizes and tensor slabs: a delta can lead from the other to this one.
  bool same_tensor_slabs(const Layout& other) const;
  // The byte slab of the other layout that has this one's role (same file, same place); null: none, parent is empty.
  const Slab* counterpart(const Slab& byte_slab, const Layout& other) const;

  // Of a directory that the user named. Strict: every rule of the safetensors format, index.json checked against the
  // shards, no links out of the directory, nothing but regular files. Errors: bad_input, naming file, tensor and reason.
  static Result<Layout> scan(const std::filesystem::path& directory);

  // Of bytes from outside: the file table, then headers one by one in file order. Errors: malformed, limit.
  static Result<Layout> from_parts(ByteView file_table, std::vector<Bytes> headers);

 private:
  Layout() = default;
  std::vector<FileEntry> files_;
  std::vector<Slab> byte_slabs_, tensor_slabs_;
  Bytes file_table_;
  LayoutHash hash_;
};

// SHA-256 over layout hash, then the digests of all byte slabs, then of all tensor slabs: the sealed digest that
// SealRecord::table_hash states.
Sha256 slab_table_hash(const LayoutHash& layout, std::span<const Digest> byte_slabs,
                       std::span<const Digest> tensor_slabs);

}  // namespace p2pw
