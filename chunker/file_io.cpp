#include "chunker/file_io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace p2pw {
Error os_error(const std::filesystem::path& path, std::string_view verb) {
  int error = errno;
  ErrorCode code = error == ENOSPC || error == EDQUOT ? ErrorCode::no_space
                   : error == ENOENT                  ? ErrorCode::not_found
                                                      : ErrorCode::io;
  return fail(code, path.string() + ": cannot " + std::string(verb) + ": " +
                        std::generic_category().message(error));
}

Result<File> File::open(const std::filesystem::path& path) {
  File file;
  file.path_ = path;
  // O_NONBLOCK: opening a pipe must not wait for a writer; on a regular file it means nothing.
  file.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.fd_ < 0) return os_error(path, "open");
  struct stat st {};
  if (fstat(file.fd_, &st) != 0) return os_error(path, "stat");
  if (!S_ISREG(st.st_mode)) return fail(ErrorCode::io, path.string() + ": not a regular file");
  return file;
}

Result<File> File::create(const std::filesystem::path& path) { return make(path, O_CREAT | O_EXCL); }

Result<File> File::open_or_create(const std::filesystem::path& path) { return make(path, O_CREAT); }

Result<File> File::make(const std::filesystem::path& path, int flags) {
  File file;
  file.path_ = path;
  file.fd_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC | flags, 0644);
  if (file.fd_ < 0) return os_error(path, "create");
  return file;
}

void File::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Result<std::uint64_t> File::size() const {
  struct stat st {};
  if (fstat(fd_, &st) != 0) return os_error(path_, "stat");
  return static_cast<std::uint64_t>(st.st_size);
}

Status File::read(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    ssize_t got = pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return os_error(path_, "read");
    if (got == 0) {
      return fail(ErrorCode::io, path_.string() + ": ends at byte " + std::to_string(offset) +
                                     ", before what should be there (is it being changed?)");
    }
    out = out.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return {};
}

Status File::write(std::uint64_t offset, ByteView bytes) const {
  while (!bytes.empty()) {
    ssize_t put = pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return os_error(path_, "write");
    bytes = bytes.subspan(static_cast<std::size_t>(put));
    offset += static_cast<std::uint64_t>(put);
  }
  return {};
}

Status File::reserve(std::uint64_t bytes) const {
  if (bytes == 0) return {};
  int error = EINTR;
  while (error == EINTR) error = posix_fallocate(fd_, 0, static_cast<off_t>(bytes));
  errno = error;
  if (error != 0) return os_error(path_, "reserve room");
  return {};
}

Status File::sync() const {
  if (fdatasync(fd_) != 0) return os_error(path_, "sync");
  return {};
}

Result<Bytes> read_file(const std::filesystem::path& path, std::uint64_t max_bytes) {
  P2PW_TRY(File file, File::open(path));
  P2PW_TRY(std::uint64_t size, file.size());
  if (size > max_bytes) {
    return fail(ErrorCode::limit, path.string() + ": larger than " + std::to_string(max_bytes) + " bytes");
  }
  Bytes bytes(size);
  P2PW_CHECK(file.read(0, bytes));
  return bytes;
}

Status sync_folder(const std::filesystem::path& path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return os_error(path, "open");
  int result = fsync(fd);
  ::close(fd);
  if (result != 0) return os_error(path, "sync");
  return {};
}

}  // namespace p2pw
