#include "chunker/bundle_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "protocol/hash.h"
#include "protocol/limits.h"

namespace p2pw {
namespace {

Error os_error(const std::string& what, int number) {
  ErrorCode code = number == ENOSPC || number == EDQUOT ? ErrorCode::no_space : ErrorCode::io;
  return fail(code, what + ": " + std::strerror(number));
}

Status write_all(int fd, std::uint64_t offset, ByteView bytes) {
  while (!bytes.empty()) {
    ssize_t n = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return os_error("writing a bundle file", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return {};
}

// False when nothing of [offset, offset + length) was ever written; then there is nothing to hash either.
bool has_data(int fd, std::uint64_t offset, std::uint64_t length) {
  off_t data = lseek(fd, static_cast<off_t>(offset), SEEK_DATA);
  if (data < 0) return errno != ENXIO;  // ENXIO: only a hole follows; otherwise the file system cannot tell
  return static_cast<std::uint64_t>(data) < offset + length;
}

Status check_shape(const std::string& what, const BundleRecord& record, std::size_t roots) {
  if (!std::has_single_bit(record.chunk_bytes) || record.chunk_bytes < limits::kMinChunkBytes ||
      record.chunk_bytes > limits::kMaxChunkBytes || record.used_bytes == 0 ||
      record.used_bytes > limits::kMaxBundleBytes) {
    return fail(ErrorCode::malformed, what + ": the record states an impossible size");
  }
  if (roots != record.chunk_count()) {
    return fail(ErrorCode::malformed, what + ": " + std::to_string(roots) + " chunk roots for " +
                                          std::to_string(record.chunk_count()) + " chunks");
  }
  return {};
}

}  // namespace

BundleFile::BundleFile(int fd, BundleRecord record, std::vector<ChunkRoot> roots)
    : fd_(fd),
      record_(std::move(record)),
      roots_(std::move(roots)),
      have_(std::make_unique<std::atomic<bool>[]>(roots_.size())) {}

BundleFile::~BundleFile() {
  ::close(fd_);
}

Result<std::shared_ptr<BundleFile>> BundleFile::open(const std::filesystem::path& path,
                                                     const BundleRecord& record,
                                                     std::vector<ChunkRoot> roots) {
  P2PW_CHECK(check_shape("bundle file " + path.string(), record, roots.size()));
  int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0640);
  if (fd < 0) return os_error("opening bundle file " + path.string(), errno);
  std::shared_ptr<BundleFile> file(new BundleFile(fd, record, std::move(roots)));

  struct stat status {};
  if (fstat(fd, &status) != 0) return os_error("bundle file " + path.string(), errno);
  const bool fresh = status.st_size == 0;
  if (static_cast<std::uint64_t>(status.st_size) != record.padded_bytes() &&
      ftruncate(fd, static_cast<off_t>(record.padded_bytes())) != 0) {
    return os_error("sizing bundle file " + path.string(), errno);
  }
  if (!fresh) P2PW_CHECK(file->find_chunks());
  return file;
}

Result<std::shared_ptr<BundleFile>> BundleFile::adopt(int fd, const BundleRecord& record,
                                                      std::vector<ChunkRoot> roots,
                                                      const std::function<bool(ChunkIndex)>& has) {
  std::shared_ptr<BundleFile> file(new BundleFile(fd, record, std::move(roots)));
  P2PW_CHECK(check_shape("a bundle file that was handed over", record, file->roots_.size()));
  for (std::uint32_t i = 0; i < file->chunk_count(); ++i) {
    if (has(ChunkIndex(i))) file->mark(ChunkIndex(i));
  }
  return file;
}

Status BundleFile::find_chunks() {
  Bytes buffer(record_.chunk_bytes);
  for (std::uint32_t i = 0; i < chunk_count(); ++i) {
    const std::uint64_t offset = std::uint64_t(i) * record_.chunk_bytes;
    if (!has_data(fd_, offset, record_.chunk_bytes)) continue;
    P2PW_CHECK(read(offset, buffer));
    if (chunk_root(buffer, record_.chunk_bytes) == roots_[i]) mark(ChunkIndex(i));
  }
  return {};
}

std::uint32_t BundleFile::count() const {
  return count_.load(std::memory_order_acquire);
}

Status BundleFile::put(ChunkIndex chunk, ByteView used) {
  if (chunk.value() >= chunk_count() || used.size() != record_.chunk_used(chunk)) {
    return fail(ErrorCode::integrity, "chunk " + std::to_string(chunk.value()) + " of bundle " +
                                          std::to_string(record_.index.value()) + " has " +
                                          std::to_string(used.size()) +
                                          " bytes, which does not fit its record");
  }
  if (chunk_root(used, record_.chunk_bytes) != roots_[chunk.value()]) {
    return fail(ErrorCode::integrity, "chunk " + std::to_string(chunk.value()) + " of bundle " +
                                          std::to_string(record_.index.value()) + " does not match its hash");
  }
  const std::uint64_t offset = std::uint64_t(chunk.value()) * record_.chunk_bytes;
  P2PW_CHECK(write_all(fd_, offset, used));
  // A neighbour may have left bytes where the padding belongs.
  const Bytes padding(record_.chunk_bytes - used.size());
  P2PW_CHECK(write_all(fd_, offset + used.size(), padding));
  mark(chunk);
  return {};
}

Status BundleFile::write(std::uint64_t offset, ByteView bytes) {
  if (offset > record_.padded_bytes() || bytes.size() > record_.padded_bytes() - offset) {
    return fail(ErrorCode::limit, "a write past the end of a bundle file");
  }
  return write_all(fd_, offset, bytes);
}

void BundleFile::mark(ChunkIndex chunk) {
  if (!have_[chunk.value()].exchange(true, std::memory_order_acq_rel)) {
    count_.fetch_add(1, std::memory_order_acq_rel);
  }
}

Status BundleFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  if (offset > record_.padded_bytes() || out.size() > record_.padded_bytes() - offset) {
    return fail(ErrorCode::limit, "a read past the end of a bundle file");
  }
  while (!out.empty()) {
    ssize_t n = pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return os_error("reading a bundle file", errno);
    if (n == 0) return fail(ErrorCode::io, "a bundle file is shorter than its record says: was it cut off?");
    out = out.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return {};
}

bool BundleFile::read_if_cached(std::uint64_t offset, std::span<std::byte> out) const {
  if (offset > record_.padded_bytes() || out.size() > record_.padded_bytes() - offset) return false;
  iovec part{out.data(), out.size()};
  return preadv2(fd_, &part, 1, static_cast<off_t>(offset), RWF_NOWAIT) == static_cast<ssize_t>(out.size());
}

Result<Bytes> BundleFile::chunk(ChunkIndex index) const {
  if (index.value() >= chunk_count() || !has(index)) {
    return fail(ErrorCode::incomplete, "chunk " + std::to_string(index.value()) + " of bundle " +
                                           std::to_string(record_.index.value()) + " is not here yet");
  }
  Bytes bytes(record_.chunk_used(index));
  P2PW_CHECK(read(std::uint64_t(index.value()) * record_.chunk_bytes, bytes));
  return bytes;
}

Result<Bytes> BundleFile::checked_chunk(ChunkIndex index) const {
  P2PW_TRY(Bytes bytes, chunk(index));
  if (chunk_root(bytes, record_.chunk_bytes) == roots_[index.value()]) return bytes;
  return fail(ErrorCode::integrity, "chunk " + std::to_string(index.value()) + " of bundle " +
                                        std::to_string(record_.index.value()) + " was changed on this disk");
}

Status BundleFile::read_checked(std::uint64_t offset, std::span<std::byte> out) const {
  if (offset > record_.used_bytes || out.size() > record_.used_bytes - offset) {
    return fail(ErrorCode::limit, "a read past the end of a bundle file");
  }
  while (!out.empty()) {
    const std::uint64_t index = offset / record_.chunk_bytes, begin = offset % record_.chunk_bytes;
    P2PW_TRY(Bytes bytes, checked_chunk(ChunkIndex(static_cast<std::uint32_t>(index))));
    const std::size_t part = std::min<std::size_t>(out.size(), bytes.size() - begin);
    std::memcpy(out.data(), bytes.data() + begin, part);
    out = out.subspan(part);
    offset += part;
  }
  return {};
}

bool BundleFile::covers(std::uint64_t offset, std::uint64_t length) const {
  if (length == 0) return true;
  if (offset >= record_.used_bytes || length > record_.used_bytes - offset) return false;
  const std::uint64_t last = (offset + length - 1) / record_.chunk_bytes;
  for (std::uint64_t i = offset / record_.chunk_bytes; i <= last; ++i) {
    if (!has(ChunkIndex(static_cast<std::uint32_t>(i)))) return false;
  }
  return true;
}

}  // namespace p2pw
