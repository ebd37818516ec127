// Files by pread and pwrite, with whole reads and writes and errors that name the file. Never mmap: a file that shrinks
// under a reader is then a short read, an error, and not a signal.
#pragma once

#include <filesystem>

#include "protocol/ids.h"

namespace p2pw {

// An open file, closed with the object. Threads: any number may read and write at once, different ranges.
class File {
 public:
  File() = default;
  ~File() { close(); }
  File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}
  File& operator=(File&& other) noexcept {
    close();
    fd_ = std::exchange(other.fd_, -1);
    path_ = std::move(other.path_);
    return *this;
  }

  // Regular files only: a pipe is refused without waiting for its other end. Errors: io, not_found.
  static Result<File> open(const std::filesystem::path& path);
  // For writing and reading; must not exist. Errors: io.
  static Result<File> create(const std::filesystem::path& path);
  // For writing and reading, made when it is not there. Errors: io.
  static Result<File> open_or_create(const std::filesystem::path& path);

  int fd() const { return fd_; }
  const std::filesystem::path& path() const { return path_; }
  Result<std::uint64_t> size() const;
  // Fills `out`. Errors: io, also when the file ends before.
  Status read(std::uint64_t offset, std::span<std::byte> out) const;
  // Errors: io, no_space.
  Status write(std::uint64_t offset, ByteView bytes) const;
  // Makes the file at least this long, its blocks set aside. Errors: io, no_space.
  Status reserve(std::uint64_t bytes) const;
  Status sync() const;

 private:
  static Result<File> make(const std::filesystem::path& path, int flags);
  void close();
  int fd_ = -1;
  std::filesystem::path path_;
};

// io or no_space, from errno: "PATH: cannot VERB: REASON".
Error os_error(const std::filesystem::path& path, std::string_view verb);

// The whole file, refused (limit) over `max_bytes`.
Result<Bytes> read_file(const std::filesystem::path& path, std::uint64_t max_bytes);

Status sync_folder(const std::filesystem::path& path);

}  // namespace p2pw
