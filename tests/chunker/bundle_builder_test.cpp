#include "chunker/bundle_builder.h"

#include <gtest/gtest.h>

#include <random>

#include "protocol/hash.h"
#include "protocol/limits.h"
#include "protocol/sealing.h"
#include "tests/support/checkpoint.h"

namespace p2pw {
namespace {

constexpr std::uint32_t kChunk = limits::kMinChunkBytes;

TEST(ChunkBytes, FollowTheLastDelta) {
  EXPECT_EQ(choose_chunk_bytes(0), limits::kDefaultChunkBytes);
  EXPECT_EQ(choose_chunk_bytes(1), 64u << 10);
  EXPECT_EQ(choose_chunk_bytes(64ull << 20), 128u << 10);
  EXPECT_EQ(choose_chunk_bytes(256ull << 20), 512u << 10);
  EXPECT_EQ(choose_chunk_bytes(300ull << 20), 512u << 10);
  EXPECT_EQ(choose_chunk_bytes(1ull << 40), limits::kMaxChunkBytes);
}

TEST(BundleSizes, TheyGrowFromOneChunkToASixteenthAndShrinkTowardsTheEnd) {
  BundleSizes sizes(kChunk, 128 * kChunk);
  std::vector<std::uint64_t> chunks;
  std::uint64_t total = 0;
  for (std::uint32_t i = 0; total < 128; ++i) {
    chunks.push_back(sizes.target(BundleIndex(i)) / kChunk);
    total += chunks.back();
  }
  EXPECT_EQ(chunks, (std::vector<std::uint64_t>{1, 2, 4, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 6, 4, 4, 4, 4, 4}));
  EXPECT_EQ(sizes.target(BundleIndex(30)), 8 * kChunk);  // the estimate was too low
}

// A version far larger than expected still fits into the number of bundles that a run may have.
TEST(BundleSizes, AnyCheckpointFitsIntoTheLimits) {
  for (std::uint64_t expected : {0ull, 1ull, 1ull << 30, 1ull << 50}) {
    BundleSizes sizes(kChunk, expected);
    std::uint64_t total = 0;
    for (std::uint32_t i = 0; i < limits::kMaxBundles; ++i) {
      ASSERT_LE(sizes.target(BundleIndex(i)) + limits::kSlabBytes, limits::kMaxBundleBytes);
      ASSERT_GE(sizes.target(BundleIndex(i)), kChunk);
      total += sizes.target(BundleIndex(i));
    }
    EXPECT_GT(total, limits::kMaxCheckpointBytes);
  }
}

// Frames of random sizes: what the metas say must lead back to the frames.
TEST(BundleBuilder, BundlesHoldTheFramesAndHashAsTheirRecordsSay) {
  const std::uint64_t seed = testing::fresh_seed();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  BundleBuilder builder(BundleSizes(kChunk, 40 * kChunk));
  std::vector<Bytes> frames;
  std::vector<BundleBuilder::Place> places;
  for (int i = 0; i < 200; ++i) {
    Bytes& frame = frames.emplace_back(kSealOverhead + 1 + random() % 9000);
    for (std::byte& b : frame) b = static_cast<std::byte>(random());
    places.push_back(builder.place(frame.size()));  // all are placed before any is added
  }
  std::vector<ClosedBundle> bundles;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    Digest digest;
    digest.data[0] = static_cast<std::uint8_t>(i);
    auto closed = builder.add(places[i], SlabId::tensor(static_cast<std::uint32_t>(3 * i)), digest, frames[i]);
    if (closed) bundles.push_back(std::move(*closed));
  }
  if (auto last = builder.finish()) bundles.push_back(std::move(*last));
  EXPECT_FALSE(builder.finish());
  ASSERT_GT(bundles.size(), 3u);
  EXPECT_LT(bundles[0].bytes.size(), kChunk + 9100);

  std::size_t next = 0;
  for (std::uint32_t b = 0; b < bundles.size(); ++b) {
    BundleRecord record = bundles[b].record(RunId(), Version(7));
    EXPECT_EQ(record.index, BundleIndex(b));
    auto meta = BundleMeta::decode(bundles[b].encoded_meta, record);
    ASSERT_TRUE(meta.ok()) << meta.error().message;
    for (std::uint32_t f = 0; f < meta->frames.size(); ++f, ++next) {
      const FrameEntry& entry = meta->frames[f];
      EXPECT_EQ(places[next].bundle, BundleIndex(b));
      EXPECT_EQ(places[next].frame, FrameIndex(f));
      EXPECT_EQ(entry.slab, SlabId::tensor(static_cast<std::uint32_t>(3 * next)));
      auto part = ByteView(bundles[b].bytes).subspan(entry.offset, entry.length);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), frames[next].begin(), frames[next].end()));
    }
    for (std::uint32_t c = 0; c < record.chunk_count(); ++c) {
      ByteView chunk = ByteView(bundles[b].bytes).subspan(std::size_t(c) * kChunk, record.chunk_used(ChunkIndex(c)));
      EXPECT_EQ(meta->chunk_roots[c], chunk_root(chunk, kChunk));
    }
    EXPECT_EQ(record.pieces_root, pieces_root(meta->chunk_roots, kChunk));
  }
  EXPECT_EQ(next, frames.size());
}

}  // namespace
}  // namespace p2pw
