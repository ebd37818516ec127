// A bundle on disk: a file of the padded size, of which some chunks are there. Which ones is found by hashing
// when the file is opened again, so that nothing else needs to survive a crash.
//
// Threads: has() and count() any thread; write() and read() any thread, different chunks or different ranges.
// A chunk is readable by everybody from the moment mark() says so.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "protocol/record.h"

namespace p2pw {

class BundleFile {
 public:
  // Creates `path`, or opens it and hashes what is there. Errors: io, no_space.
  static Result<std::shared_ptr<BundleFile>> open(const std::filesystem::path& path,
                                                  const BundleRecord& record, std::vector<ChunkRoot> roots);
  // A file that somebody else has opened for reading and writing and keeps at its size; `fd` is taken over. Nothing is
  // hashed: `has` says which chunks are there. Errors: malformed (as for open()), the descriptor is closed then.
  static Result<std::shared_ptr<BundleFile>> adopt(int fd, const BundleRecord& record, std::vector<ChunkRoot> roots,
                                                   const std::function<bool(ChunkIndex)>& has);
  ~BundleFile();
  BundleFile(const BundleFile&) = delete;

  // Stays open as long as this object; to hand it on.
  int descriptor() const { return fd_; }

  const BundleRecord& record() const { return record_; }
  const std::vector<ChunkRoot>& roots() const { return roots_; }
  std::uint32_t chunk_count() const { return static_cast<std::uint32_t>(roots_.size()); }
  bool has(ChunkIndex chunk) const { return have_[chunk.value()].load(std::memory_order_acquire); }
  std::uint32_t count() const;
  bool complete() const { return count() == chunk_count(); }

  // Hashes `used` (without padding) and, when it matches, writes it and marks the chunk. Errors: integrity,
  // io, no_space.
  Status put(ChunkIndex chunk, ByteView used);
  // For the swarm, which writes blocks and hashes by itself: raw bytes, then mark() once the hash has been
  // checked.
  Status write(std::uint64_t offset, ByteView bytes);
  void mark(ChunkIndex chunk);
  Status read(std::uint64_t offset, std::span<std::byte> out) const;
  // The same, only when the page cache has all of it: never waits for a disk. False tells nothing but "use
  // read()".
  bool read_if_cached(std::uint64_t offset, std::span<std::byte> out) const;
  // The used bytes of a chunk that is there.
  Result<Bytes> chunk(ChunkIndex chunk) const;
  // The same, hashed: what another process may have written since. Errors also: integrity.
  Result<Bytes> checked_chunk(ChunkIndex chunk) const;
  // Any range, of chunks that are hashed as they are read: slow, for when plain bytes turned out wrong. Errors: integrity,
  // io, limit.
  Status read_checked(std::uint64_t offset, std::span<std::byte> out) const;
  // All chunks under [offset, offset + length) are there.
  bool covers(std::uint64_t offset, std::uint64_t length) const;

 private:
  BundleFile(int fd, BundleRecord record, std::vector<ChunkRoot> roots);
  Status find_chunks();  // hashes what is there
  int fd_;
  BundleRecord record_;
  std::vector<ChunkRoot> roots_;
  std::unique_ptr<std::atomic<bool>[]> have_;
  std::atomic<std::uint32_t> count_{0};
};

}  // namespace p2pw
