// The checkpoint folder of a slot as files: made at full size, written where told, and synced. What the contents mean is
// the Slot's business.
//
// Threads: open() and mark_dirty() any; the others while nothing else runs.
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <string>

#include "chunker/checkpoint_table.h"
#include "chunker/file_system.h"

namespace p2pw {

class SlotFiles {
 public:
  SlotFiles(FileSystem& files, std::filesystem::path checkpoint);

  // For writing; handles (and the memory they map) are kept for the next time.
  Result<std::shared_ptr<FileHandle>> open(const std::string& path);
  // One piece, opened for reading only. Errors: io, not_found.
  Status read(const std::string& path, std::uint64_t offset, std::span<std::byte> out) const;
  // Written to since the last sync().
  void mark_dirty(const std::string& path);
  // Any file may hold what was never synced: a process before was at work.
  void mark_all_dirty();

  // Every file of the layout is there at its size. Errors: not_found, integrity.
  Status check_sizes(const Layout& layout) const;
  // Removes what the layout has not, then makes folders and tensor files, with their room reserved.
  Status make(const Layout& layout);
  // Writes headers and side files out of the store, those that differ from `placed` (null: all), and removes files that
  // the layout has not.
  Status place_bytes(const ByteStore& store, const ByteTable& want, const ByteTable* placed);
  // Everything written is on stable storage, folders too.
  Status sync(const Layout& layout);

 private:
  Status place_file(const ByteStore& store, const ByteTable& want, std::size_t file);
  Status make_parents(const Layout& layout);
  Status remove_strangers(const Layout& layout, const std::filesystem::path& folder, const std::string& prefix);
  Status sync_folders(const Layout& layout);

  static constexpr std::size_t kMaxOpenFiles = 512;
  FileSystem& files_;
  const std::filesystem::path checkpoint_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<FileHandle>> open_;
  std::set<std::string> dirty_;
  bool all_dirty_ = false;
  bool folders_dirty_ = false;
};

}  // namespace p2pw
