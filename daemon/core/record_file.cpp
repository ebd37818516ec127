#include "daemon/core/record_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "daemon/client/files.h"
#include "protocol/limits.h"

namespace p2pw {
namespace {

Error io_error(const std::filesystem::path& path, const char* what) {
  ErrorCode code = errno == ENOSPC || errno == EDQUOT ? ErrorCode::no_space : ErrorCode::io;
  return fail(code, path.string() + ": cannot " + what + ": " + std::strerror(errno));
}

std::string framed(ByteView envelope) {
  auto size = static_cast<std::uint32_t>(envelope.size());
  std::string out;
  for (int i = 0; i < 4; ++i) out += static_cast<char>(size >> (8 * i));
  out += as_text(envelope);
  return out;
}

}  // namespace

Result<RecordFile> RecordFile::open(const std::filesystem::path& path) {
  std::error_code ignored;
  std::filesystem::create_directories(path.parent_path(), ignored);
  int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0640);
  if (fd < 0) return io_error(path, "open the record log");
  RecordFile file(fd, path);
  struct stat info {};
  if (fstat(fd, &info) != 0) return io_error(path, "read the record log");
  std::string all(static_cast<std::size_t>(info.st_size), '\0');
  if (pread(fd, all.data(), all.size(), 0) != static_cast<ssize_t>(all.size())) return io_error(path, "read the record log");
  std::size_t at = 0;
  while (all.size() - at >= 4) {
    std::uint32_t size = 0;
    for (int i = 3; i >= 0; --i) size = size << 8 | static_cast<unsigned char>(all[at + static_cast<std::size_t>(i)]);
    if (size > limits::kMaxRecordBytes || all.size() - at - 4 < size) break;
    auto bytes = as_bytes(std::string_view(all).substr(at + 4, size));
    file.loaded_.emplace_back(bytes.begin(), bytes.end());
    at += 4 + size;
  }
  if (at != all.size() && ftruncate(fd, static_cast<off_t>(at)) != 0) return io_error(path, "cut the record log");
  if (lseek(fd, 0, SEEK_END) < 0) return io_error(path, "read the record log");
  return file;
}

RecordFile::RecordFile(RecordFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)), loaded_(std::move(other.loaded_)) {}

RecordFile::~RecordFile() {
  if (fd_ >= 0) ::close(fd_);
}

Status RecordFile::append(ByteView envelope, bool sync) {
  std::string out = framed(envelope);
  auto before = lseek(fd_, 0, SEEK_END);
  if (::write(fd_, out.data(), out.size()) != static_cast<ssize_t>(out.size())) {
    Error error = io_error(path_, "append to the record log");
    if (ftruncate(fd_, before) != 0) return io_error(path_, "cut the record log");
    return error;
  }
  if (sync && fdatasync(fd_) != 0) return io_error(path_, "sync the record log");
  return {};
}

Status RecordFile::rewrite(const std::vector<Bytes>& envelopes) {
  std::string all;
  for (const Bytes& envelope : envelopes) all += framed(envelope);
  P2PW_CHECK(write_small_file(path_, all, 0640));
  int fd = ::open(path_.c_str(), O_RDWR | O_APPEND | O_CLOEXEC);
  if (fd < 0) return io_error(path_, "open the record log");
  ::close(std::exchange(fd_, fd));
  return {};
}

}  // namespace p2pw
