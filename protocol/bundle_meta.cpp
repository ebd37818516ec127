#include <algorithm>

#include "protocol/hash.h"
#include "protocol/limits.h"
#include "protocol/record.h"
#include "protocol/records.pb.h"
#include "protocol/sealing.h"

namespace p2pw {
namespace {

constexpr std::uint32_t kMetaFormat = 1;

Error malformed(const BundleRecord& record, const std::string& complaint) {
  return fail(ErrorCode::malformed, "the meta of bundle " + std::to_string(record.index.value()) +
                                        " of version " + std::to_string(record.version.value()) + ": " +
                                        complaint);
}

// Frame lengths and slab steps to entries that fill the bundle exactly and name no slab twice.
Result<std::vector<FrameEntry>> decode_frames(const wire::BundleMeta& meta, const BundleRecord& record) {
  const auto count = static_cast<std::size_t>(meta.frame_lengths_size());
  if (count > limits::kMaxFramesPerBundle) return malformed(record, "too many frames");
  if (static_cast<std::size_t>(meta.slab_steps_size()) != count ||
      meta.digests().size() != count * Digest::kSize) {
    return malformed(record, "frame lengths, slabs and digests differ in number");
  }
  std::vector<FrameEntry> frames(count);
  std::vector<std::uint32_t> seen(count);
  std::uint64_t offset = 0;
  std::int64_t slab = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const int at = static_cast<int>(i);
    const std::uint32_t length = meta.frame_lengths(at);
    if (length <= kSealOverhead || length > limits::kSlabBytes + limits::kMaxFrameOverhead) {
      return malformed(record, "frame " + std::to_string(i) + " has " + std::to_string(length) + " bytes");
    }
    constexpr std::int64_t kRange = std::int64_t(1) << 32;
    const std::int64_t step = meta.slab_steps(at);
    if (step <= -kRange || step >= kRange || slab + step < 0 || slab + step >= kRange) {
      return malformed(record, "frame " + std::to_string(i) + " names no slab");
    }
    slab += step;
    seen[i] = static_cast<std::uint32_t>(slab);
    frames[i].slab = SlabId(seen[i]);
    frames[i].offset = offset;
    frames[i].length = length;
    frames[i].digest =
        *Digest::from(std::string_view(meta.digests()).substr(i * Digest::kSize, Digest::kSize));
    offset += length;
    if (offset > record.used_bytes) break;
  }
  if (offset != record.used_bytes) return malformed(record, "the frames do not fill the bundle exactly");
  std::sort(seen.begin(), seen.end());
  if (std::adjacent_find(seen.begin(), seen.end()) != seen.end())
    return malformed(record, "a slab has two frames");
  return frames;
}

}  // namespace

Bytes BundleMeta::encode() const {
  wire::BundleMeta meta;
  meta.set_format(kMetaFormat);
  std::string* roots = meta.mutable_chunk_roots();
  for (const ChunkRoot& root : chunk_roots) roots->append(root.text());
  std::string* digests = meta.mutable_digests();
  std::int64_t slab = 0;
  for (const FrameEntry& frame : frames) {
    meta.add_frame_lengths(frame.length);
    meta.add_slab_steps(std::int64_t(frame.slab.raw()) - slab);
    slab = frame.slab.raw();
    digests->append(frame.digest.text());
  }
  Bytes bytes(meta.ByteSizeLong());
  meta.SerializeToArray(bytes.data(), static_cast<int>(bytes.size()));
  return bytes;
}

Result<BundleMeta> BundleMeta::decode(ByteView bytes, const BundleRecord& record) {
  if (bytes.size() > limits::kMaxMetaBytes)
    return fail(ErrorCode::limit, "a bundle meta is larger than 16 MiB");
  if (bytes.size() != record.meta_bytes || sha256(bytes) != record.meta_hash) {
    return fail(ErrorCode::integrity, "the meta of bundle " + std::to_string(record.index.value()) +
                                          " of version " + std::to_string(record.version.value()) +
                                          " is not the one that its record names");
  }
  wire::BundleMeta meta;
  if (!meta.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return malformed(record, "the bytes do not follow the format");
  }
  if (meta.format() != kMetaFormat) {
    return fail(ErrorCode::unsupported, "a bundle meta of format " + std::to_string(meta.format()) +
                                            "; this build knows format " + std::to_string(kMetaFormat) +
                                            " only: update p2pw");
  }
  BundleMeta out;
  const std::size_t chunks = record.chunk_count();
  if (meta.chunk_roots().size() != chunks * ChunkRoot::kSize) {
    return malformed(record, "it holds " + std::to_string(meta.chunk_roots().size()) +
                                 " bytes of chunk roots for " + std::to_string(chunks) + " chunks");
  }
  for (std::size_t i = 0; i < chunks; ++i) {
    out.chunk_roots.push_back(*ChunkRoot::from(
        std::string_view(meta.chunk_roots()).substr(i * ChunkRoot::kSize, ChunkRoot::kSize)));
  }
  if (pieces_root(out.chunk_roots, record.chunk_bytes) != record.pieces_root) {
    return fail(ErrorCode::integrity, "the chunk roots of bundle " + std::to_string(record.index.value()) +
                                          " of version " + std::to_string(record.version.value()) +
                                          " do not lead to the pieces root in its record");
  }
  P2PW_TRY(out.frames, decode_frames(meta, record));
  return out;
}

}  // namespace p2pw
