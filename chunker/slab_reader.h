// Reads the slabs of a checkpoint directory, byte slabs and the file table included.
//
// By pread into the caller's buffers: measured as fast as mmap from the page cache (the copy costs what the page faults
// would), and a file that is cut under the reader is an error here, where it would be a signal there.
//
// Threads: read() from any number at once. The layout must outlive the reader.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "chunker/file_io.h"
#include "chunker/layout.h"

namespace p2pw {

class SlabReader {
 public:
  SlabReader(std::filesystem::path directory, const Layout& layout);
  ~SlabReader();

  // Fills `out`, whose size is slab.length. Errors: io, not_found; bad_input when the file is no longer the one that was
  // read before, or not as long as the layout says.
  Status read(const Slab& slab, std::span<std::byte> out) const;

  // Every file that was read still has the size and the time of change that it had when it was first opened. A trainer
  // that writes into the directory meanwhile is found out here. Errors: bad_input, io.
  Status check_unchanged() const;

  const Layout& layout() const { return layout_; }
  const std::filesystem::path& directory() const { return directory_; }

 private:
  struct Stamp;
  struct OpenFile;
  Result<std::shared_ptr<const File>> file(std::uint32_t index) const;
  Result<Stamp> stamp(const File& file, const FileEntry& entry) const;

  std::filesystem::path directory_;
  const Layout& layout_;
  mutable std::mutex mutex_;
  mutable std::map<std::uint32_t, std::shared_ptr<const File>> open_;  // few; slabs are read about in order
  mutable std::map<std::uint32_t, Stamp> stamps_;
};

}  // namespace p2pw
