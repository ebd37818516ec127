// The byte slabs (file tables, headers, side files) of the versions at hand, each in one file named by its digest, in
// <channel>/bytes. Byte slabs are small; keeping their exact bytes apart from the checkpoints means that the parent of
// every byte frame is at hand in any state of a slot, and that a slot's headers and side files can be written anew at
// its end, whatever a crash left there.
//
// Threads: any; the same digest may be put twice at once.
#pragma once

#include <mutex>
#include <set>

#include "chunker/file_system.h"

namespace p2pw {

class ByteStore {
 public:
  ByteStore(FileSystem& files, std::filesystem::path directory);

  // Stable only after sync(). Errors: io, no_space.
  Status put(const Digest& digest, ByteView bytes);
  // Checked against the digest. Errors: not_found, integrity (removed, so that it can be put again), io.
  Result<Bytes> get(const Digest& digest) const;
  // All that was put is on stable storage.
  Status sync();
  // Removes all others. The caller names those of every slot and of every run in work, and calls this while no put() runs.
  void keep_only(const std::set<Digest>& digests);

 private:
  std::filesystem::path path_of(const Digest& digest) const;
  Status sync_files(const std::set<Digest>& digests);
  FileSystem& files_;
  std::filesystem::path directory_;
  mutable std::mutex mutex_;
  bool made_ = false;
  std::uint64_t next_temporary_ = 0;
  std::set<Digest> unsynced_;
};

}  // namespace p2pw
