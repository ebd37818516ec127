// The files of a checkpoint and what follows from their sizes alone: the byte slabs. A receiver decodes the file table
// first (byte slab 0), then knows where every header and side file lies; with the headers it knows the whole layout.
//
// Encoding: one format byte (1), the number of files, then for each file, by path byte-wise: length of the path, path,
// size, header size (0 for a side file). Numbers are LEB128 in their shortest form, so equal tables are equal bytes.
#pragma once

#include <string>
#include <vector>

#include "chunker/safetensors.h"
#include "protocol/ids.h"

namespace p2pw {

struct FileEntry {
  std::string path;  // relative, '/'-separated, checked: see check_path()
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

// Why `path` cannot name a file of a checkpoint; empty when it can. Good: UTF-8 without control characters, relative,
// no empty part, no "." or "..", at most limits::kMaxPathLength bytes and 255 for each part.
std::string why_bad_path(std::string_view path);

class FileTable {
 public:
  // Sorts and checks. Errors, with `code`: a bad path, two names that differ only in case, a file in the place of a
  // folder, a bound from limits.h. An empty checkpoint is an error too.
  static Result<FileTable> make(std::vector<FileEntry> files, ErrorCode code);
  // Of bytes from outside. Errors: unsupported (another format), malformed, limit.
  static Result<FileTable> parse(ByteView encoded);

  const std::vector<FileEntry>& files() const { return files_; }  // tensors empty until a Layout fills them
  const std::vector<Slab>& byte_slabs() const { return byte_slabs_; }
  const Bytes& encoded() const { return encoded_; }
  std::uint64_t total_bytes() const { return total_bytes_; }

  // The byte slabs of one file, its header for a tensor file; none for an empty side file.
  std::span<const Slab> byte_slabs_of(std::size_t file) const;
  std::optional<std::size_t> find(std::string_view path) const;
  // The byte slab of `other` that has the role of `slab`, one of this table; null: none, the parent is empty.
  const Slab* counterpart(const Slab& slab, const FileTable& other) const;

 private:
  friend class Layout;
  friend class LayoutBuilder;
  FileTable() = default;
  Status check(ErrorCode code) const;
  Status check_names(ErrorCode code) const;
  Status cut(ErrorCode code);
  void encode();

  std::vector<FileEntry> files_;
  std::vector<Slab> byte_slabs_;
  std::vector<std::uint32_t> first_slab_;  // of each file
  Bytes encoded_;
  std::uint64_t total_bytes_ = 0;
};

}  // namespace p2pw
