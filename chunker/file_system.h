// The few operations of the operating system that slots need, behind an interface, so that tests can make writes short,
// fill the disk, fail a call, or cut the power and lose what was never synced.
//
// Threads: a FileSystem and its handles may be used from any thread; different ranges of one file at the same time.
// Errors: io, no_space (ENOSPC, EDQUOT, EFBIG), not_found; messages name the path and the call.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "protocol/ids.h"

namespace p2pw {

class FileHandle {
 public:
  virtual ~FileHandle() = default;
  // At least one byte unless the end of the file is reached; may return fewer than asked.
  virtual Result<std::size_t> read_some(std::uint64_t offset, std::span<std::byte> out) = 0;
  // At least one byte; may write fewer than asked.
  virtual Result<std::size_t> write_some(std::uint64_t offset, ByteView bytes) = 0;
  virtual Result<std::uint64_t> size() = 0;
  // Makes the file exactly `bytes` long with room on the disk for all of it: no hole is left that could fail later.
  virtual Status allocate(std::uint64_t bytes) = 0;
  // Data and size are on stable storage.
  virtual Status sync() = 0;
  // Starts writing a range back, so that a later sync() has little left. A hint, never fails.
  virtual void start_writeback(std::uint64_t offset, std::uint64_t length) = 0;
  // The whole file as shared writable memory, valid as long as this handle; the same one on every call. Empty where that
  // does not pay or is not safe: only files that live in memory are mapped, since a failing disk would raise SIGBUS.
  virtual std::span<std::byte> map() = 0;
};

Status read_exact(FileHandle& file, std::uint64_t offset, std::span<std::byte> out);  // io when the file ends before
Status write_all(FileHandle& file, std::uint64_t offset, ByteView bytes);

enum class OpenMode { read, write, create };  // write: must exist; create: made when it does not exist

struct DirectoryEntry {
  std::string name;
  bool is_directory = false;  // a link is not
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual Result<std::unique_ptr<FileHandle>> open(const std::filesystem::path& path, OpenMode mode) = 0;
  virtual Status make_directories(const std::filesystem::path& path) = 0;
  virtual Status rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;  // replaces
  virtual Status remove(const std::filesystem::path& path) = 0;  // file, link or empty directory; absent is fine
  virtual Status symlink(const std::string& target, const std::filesystem::path& path) = 0;
  virtual Result<std::string> read_link(const std::filesystem::path& path) = 0;
  virtual Result<std::vector<DirectoryEntry>> list(const std::filesystem::path& directory) = 0;
  virtual Status sync_directory(const std::filesystem::path& directory) = 0;
};

FileSystem& real_file_system();

// The whole of a small file. Errors: not_found, limit, io.
Result<Bytes> read_small_file(FileSystem& files, const std::filesystem::path& path, std::size_t at_most);
// Replaces a small file so that after any crash either the old or the new contents are there: temporary file, sync,
// rename, sync of the directory.
Status replace_file(FileSystem& files, const std::filesystem::path& path, ByteView contents);

}  // namespace p2pw
