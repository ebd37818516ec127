#include "chunker/bundle_builder.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "protocol/hash.h"
#include "protocol/limits.h"

namespace p2pw {
namespace {

constexpr std::uint32_t kSmallestChosen = 64u << 10;
constexpr std::uint64_t kChunksWanted = 512;
constexpr std::uint64_t kBundlesWanted = 16;
constexpr std::uint64_t kTaper = 4;              // a bundle holds at most this part of what is left
constexpr std::uint64_t kSmallestTaperChunks = 4;
constexpr std::uint32_t kBundlesBeforeGrowth = 64;
// A meta takes at most about 32 bytes for each frame and each chunk; half of kMaxMetaBytes is for frames.
constexpr std::uint32_t kMostFrames = limits::kMaxMetaBytes / 2 / 32;
// A bundle closes after the frame that fills it, which may be a whole slab more.
constexpr std::uint64_t kLargestTarget = limits::kMaxBundleBytes - limits::kSlabBytes - (1u << 20);

}  // namespace

std::uint32_t choose_chunk_bytes(std::uint64_t last_delta_bytes) {
  if (last_delta_bytes == 0) return limits::kDefaultChunkBytes;
  std::uint64_t wanted = std::bit_floor(std::max<std::uint64_t>(1, last_delta_bytes / kChunksWanted));
  return static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(wanted, kSmallestChosen, limits::kMaxChunkBytes));
}

BundleSizes::BundleSizes(std::uint32_t chunk_bytes, std::uint64_t expected_bytes) : chunk_bytes_(chunk_bytes) {
  const std::uint64_t part = expected_bytes == 0 ? chunk_bytes * 16ull : expected_bytes / kBundlesWanted;
  const std::uint64_t chunks = std::max<std::uint64_t>(1, part / chunk_bytes);
  cap_ = std::min(chunks * chunk_bytes, kLargestTarget);
  std::uint64_t ramp = chunk_bytes;
  for (std::uint64_t left = expected_bytes; left > 0 && planned_.size() < kBundlesBeforeGrowth;) {
    const std::uint64_t taper = std::max(left / kTaper / chunk_bytes, kSmallestTaperChunks) * chunk_bytes;
    planned_.push_back(std::min({ramp, cap_, taper}));
    left -= std::min(left, planned_.back());
    ramp = std::min(2 * ramp, cap_);
  }
}

std::uint64_t BundleSizes::target(BundleIndex index) const {
  const std::uint32_t i = index.value();
  if (i < planned_.size()) return planned_[i];
  const std::uint64_t ramp = std::uint64_t(chunk_bytes_) << std::min(i, 20u);
  const std::uint64_t grown = cap_ << std::min(i / kBundlesBeforeGrowth, 20u);
  return std::min({ramp, grown, kLargestTarget});
}

BundleRecord ClosedBundle::record(const RunId& run, Version version) const {
  BundleRecord record;
  record.run = run;
  record.version = version;
  record.index = index;
  record.used_bytes = bytes.size();
  record.chunk_bytes = chunk_bytes;
  record.pieces_root = pieces_root;
  record.meta_hash = meta_hash;
  record.meta_bytes = static_cast<std::uint32_t>(encoded_meta.size());
  return record;
}

bool BundleBuilder::full(BundleIndex index, std::uint64_t bytes, std::size_t frames) const {
  return bytes >= sizes_.target(index) || frames >= kMostFrames;
}

BundleBuilder::Place BundleBuilder::place(std::size_t sealed_bytes) {
  Place place{placing_, next_frame_};
  next_frame_ = next_frame_.next();
  placed_bytes_ += sealed_bytes;
  if (full(placing_, placed_bytes_, next_frame_.value())) {
    placing_ = placing_.next();
    next_frame_ = FrameIndex(0);
    placed_bytes_ = 0;
  }
  return place;
}

std::optional<ClosedBundle> BundleBuilder::add(Place place, SlabId slab, const Digest& digest, ByteView sealed) {
  assert(place.bundle == filling_.index && place.frame.value() == filling_.meta.frames.size());
  filling_.meta.frames.push_back(
      {slab, filling_.bytes.size(), static_cast<std::uint32_t>(sealed.size()), digest});
  filling_.bytes.insert(filling_.bytes.end(), sealed.begin(), sealed.end());
  std::uint32_t chunk = sizes_.chunk_bytes();
  for (; hashed_ + chunk <= filling_.bytes.size(); hashed_ += chunk) {
    filling_.meta.chunk_roots.push_back(chunk_root(ByteView(filling_.bytes).subspan(hashed_, chunk), chunk));
  }
  if (!full(place.bundle, filling_.bytes.size(), filling_.meta.frames.size())) return std::nullopt;
  return close();
}

std::optional<ClosedBundle> BundleBuilder::finish() {
  if (filling_.bytes.empty()) return std::nullopt;
  return close();
}

ClosedBundle BundleBuilder::close() {
  std::uint32_t chunk = sizes_.chunk_bytes();
  if (hashed_ < filling_.bytes.size()) {
    filling_.meta.chunk_roots.push_back(chunk_root(ByteView(filling_.bytes).subspan(hashed_), chunk));
  }
  hashed_ = 0;
  filling_.chunk_bytes = chunk;
  filling_.encoded_meta = filling_.meta.encode();
  filling_.meta_hash = sha256(filling_.encoded_meta);
  filling_.pieces_root = pieces_root(filling_.meta.chunk_roots, chunk);
  ClosedBundle closed = std::move(filling_);
  filling_ = ClosedBundle();
  filling_.index = closed.index.next();
  return closed;
}

}  // namespace p2pw
