#include "chunker/bundle_file.h"

#include <algorithm>
#include <bit>

#include "protocol/hash.h"
#include "protocol/limits.h"

namespace p2pw {
namespace {

Status check_shape(const BundleRecord& record, std::size_t roots) {
  bool good = std::has_single_bit(record.chunk_bytes) && record.chunk_bytes >= limits::kMinChunkBytes &&
              record.chunk_bytes <= limits::kMaxChunkBytes && record.used_bytes > 0 &&
              record.used_bytes <= limits::kMaxBundleBytes && roots == record.chunk_count();
  if (!good) return fail(ErrorCode::malformed, "bundle: sizes and chunk roots do not fit together");
  return {};
}

}  // namespace

BundleFile::BundleFile(File file, BundleRecord record, std::vector<ChunkRoot> roots)
    : file_(std::move(file)),
      record_(std::move(record)),
      roots_(std::move(roots)),
      have_(std::make_unique<std::atomic<bool>[]>(roots_.size())) {}

BundleFile::~BundleFile() = default;

Result<std::shared_ptr<BundleFile>> BundleFile::open(const std::filesystem::path& path, const BundleRecord& record,
                                                     std::vector<ChunkRoot> roots) {
  P2PW_CHECK(check_shape(record, roots.size()));
  P2PW_TRY(File file, File::open_or_create(path));
  P2PW_TRY(std::uint64_t size, file.size());
  P2PW_CHECK(file.reserve(record.padded_bytes()));
  std::shared_ptr<BundleFile> bundle(new BundleFile(std::move(file), record, std::move(roots)));
  // What a file that is shorter than it should be holds was not finished by us, but its chunks may be good.
  if (size > 0) P2PW_CHECK(bundle->find_chunks(std::min(size, record.padded_bytes())));
  return bundle;
}

Status BundleFile::find_chunks(std::uint64_t file_bytes) {
  Bytes buffer(record_.chunk_bytes);
  for (std::uint32_t i = 0; i < chunk_count(); ++i) {
    std::uint64_t offset = std::uint64_t(i) * record_.chunk_bytes;
    if (offset >= file_bytes) break;
    std::span<std::byte> used = std::span(buffer).first(record_.chunk_used(ChunkIndex(i)));
    P2PW_CHECK(file_.read(offset, used));
    if (chunk_root(used, record_.chunk_bytes) == roots_[i]) mark(ChunkIndex(i));
  }
  return {};
}

std::uint32_t BundleFile::count() const { return count_.load(std::memory_order_acquire); }

Status BundleFile::put(ChunkIndex chunk, ByteView used) {
  if (chunk.value() >= chunk_count() || used.size() != record_.chunk_used(chunk) ||
      chunk_root(used, record_.chunk_bytes) != roots_[chunk.value()]) {
    return fail(ErrorCode::integrity, "bundle " + std::to_string(record_.index.value()) + ", chunk " +
                                          std::to_string(chunk.value()) + ": the bytes do not have its hash");
  }
  P2PW_CHECK(write(std::uint64_t(chunk.value()) * record_.chunk_bytes, used));
  mark(chunk);
  return {};
}

Status BundleFile::write(std::uint64_t offset, ByteView bytes) {
  if (offset > record_.padded_bytes() || bytes.size() > record_.padded_bytes() - offset) {
    return fail(ErrorCode::limit, file_.path().string() + ": a write past the end of the bundle");
  }
  return file_.write(offset, bytes);
}

void BundleFile::mark(ChunkIndex chunk) {
  if (!have_[chunk.value()].exchange(true, std::memory_order_acq_rel)) {
    count_.fetch_add(1, std::memory_order_acq_rel);
  }
}

Status BundleFile::read(std::uint64_t offset, std::span<std::byte> out) const { return file_.read(offset, out); }

Result<Bytes> BundleFile::chunk(ChunkIndex chunk) const {
  if (chunk.value() >= chunk_count() || !has(chunk)) {
    return fail(ErrorCode::incomplete, "bundle " + std::to_string(record_.index.value()) + ": chunk " +
                                           std::to_string(chunk.value()) + " is not here");
  }
  Bytes bytes(record_.chunk_used(chunk));
  P2PW_CHECK(read(std::uint64_t(chunk.value()) * record_.chunk_bytes, bytes));
  return bytes;
}

bool BundleFile::covers(std::uint64_t offset, std::uint64_t length) const {
  if (length == 0) return true;
  if (offset >= record_.used_bytes || length > record_.used_bytes - offset) return false;
  auto first = static_cast<std::uint32_t>(offset / record_.chunk_bytes);
  auto last = static_cast<std::uint32_t>((offset + length - 1) / record_.chunk_bytes);
  for (std::uint32_t i = first; i <= last; ++i) {
    if (!has(ChunkIndex(i))) return false;
  }
  return true;
}

}  // namespace p2pw
