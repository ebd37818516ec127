#include "chunker/bundle_file.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "protocol/hash.h"
#include "protocol/limits.h"
#include "tests/support/checkpoint.h"
#include "tests/support/temp_dir.h"

namespace p2pw {
namespace {

constexpr std::uint32_t kChunk = limits::kMinChunkBytes;

class BundleFileTest : public ::testing::Test {
 protected:
  BundleFileTest() : bytes_(3 * kChunk + 100) {
    std::mt19937_64 random(3);
    for (std::byte& b : bytes_) b = static_cast<std::byte>(random());
    record_.used_bytes = bytes_.size();
    record_.chunk_bytes = kChunk;
    for (std::uint32_t i = 0; i < record_.chunk_count(); ++i) roots_.push_back(chunk_root(used(i), kChunk));
  }
  ByteView used(std::uint32_t i) const {
    return ByteView(bytes_).subspan(std::size_t(i) * kChunk, record_.chunk_used(ChunkIndex(i)));
  }
  std::shared_ptr<BundleFile> open() {
    auto file = BundleFile::open(dir_ / "bundle", record_, roots_);
    EXPECT_TRUE(file.ok()) << (file.ok() ? "" : file.error().message);
    return file.ok() ? *file : nullptr;
  }

  testing::TempDir dir_;
  Bytes bytes_;
  BundleRecord record_;
  std::vector<ChunkRoot> roots_;
};

TEST_F(BundleFileTest, StartsEmptyAtItsPaddedSize) {
  auto file = open();
  EXPECT_EQ(file->chunk_count(), 4u);
  EXPECT_EQ(file->count(), 0u);
  EXPECT_FALSE(file->complete());
  EXPECT_EQ(std::filesystem::file_size(dir_ / "bundle"), 4ull * kChunk);
  EXPECT_EQ(file->chunk(ChunkIndex(0)).error().code, ErrorCode::incomplete);
}

TEST_F(BundleFileTest, TakesOnlyChunksWithTheirHash) {
  auto file = open();
  Bytes flipped(used(1).begin(), used(1).end());
  flipped[77] ^= std::byte{1};
  EXPECT_EQ(file->put(ChunkIndex(1), flipped).error().code, ErrorCode::integrity);
  EXPECT_EQ(file->put(ChunkIndex(0), used(1)).error().code, ErrorCode::integrity);
  EXPECT_EQ(file->put(ChunkIndex(3), used(3).first(99)).error().code, ErrorCode::integrity);
  EXPECT_EQ(file->put(ChunkIndex(4), used(3)).error().code, ErrorCode::integrity);
  EXPECT_EQ(file->count(), 0u);
  EXPECT_TRUE(file->put(ChunkIndex(3), used(3)).ok());
  EXPECT_TRUE(file->put(ChunkIndex(3), used(3)).ok());
  EXPECT_EQ(file->count(), 1u);
  auto back = file->chunk(ChunkIndex(3));
  ASSERT_TRUE(back.ok());
  EXPECT_TRUE(std::equal(back->begin(), back->end(), used(3).begin(), used(3).end()));
}

TEST_F(BundleFileTest, WhatIsThereIsFoundByHashingAfterACrash) {
  {
    auto file = open();
    ASSERT_TRUE(file->put(ChunkIndex(0), used(0)).ok());
    ASSERT_TRUE(file->put(ChunkIndex(3), used(3)).ok());
    ASSERT_TRUE(file->write(kChunk, used(1).first(5000)).ok());  // half a chunk, never marked
  }
  auto again = open();
  EXPECT_EQ(again->count(), 2u);
  EXPECT_TRUE(again->has(ChunkIndex(0)));
  EXPECT_FALSE(again->has(ChunkIndex(1)));
  EXPECT_TRUE(again->has(ChunkIndex(3)));
}

TEST_F(BundleFileTest, AFileCutShortKeepsItsGoodChunks) {
  ASSERT_TRUE(open()->put(ChunkIndex(0), used(0)).ok());
  std::filesystem::resize_file(dir_ / "bundle", kChunk + 10);
  auto again = open();
  EXPECT_EQ(again->count(), 1u);
  EXPECT_EQ(std::filesystem::file_size(dir_ / "bundle"), 4ull * kChunk);
}

TEST_F(BundleFileTest, CoversOnlyRangesWhoseChunksAreAllThere) {
  auto file = open();
  ASSERT_TRUE(file->put(ChunkIndex(1), used(1)).ok());
  ASSERT_TRUE(file->put(ChunkIndex(2), used(2)).ok());
  EXPECT_TRUE(file->covers(kChunk, 2 * kChunk));
  EXPECT_TRUE(file->covers(kChunk + 5, kChunk));
  EXPECT_FALSE(file->covers(kChunk - 1, 2));
  EXPECT_FALSE(file->covers(3 * kChunk - 1, 2));
  EXPECT_TRUE(file->covers(0, 0));
  ASSERT_TRUE(file->put(ChunkIndex(3), used(3)).ok());
  EXPECT_TRUE(file->covers(3 * kChunk, 100));
  EXPECT_FALSE(file->covers(3 * kChunk, 101)) << "padding is not there for anybody";
  EXPECT_FALSE(file->covers(UINT64_MAX, 2));
}

TEST_F(BundleFileTest, WritesOfTheSwarmStayInside) {
  auto file = open();
  ASSERT_TRUE(file->write(0, used(0)).ok());
  EXPECT_FALSE(file->has(ChunkIndex(0)));
  file->mark(ChunkIndex(0));
  EXPECT_TRUE(file->has(ChunkIndex(0)));
  EXPECT_EQ(file->write(4 * kChunk - 1, used(0).first(2)).error().code, ErrorCode::limit);
  EXPECT_EQ(file->write(UINT64_MAX, used(0).first(2)).error().code, ErrorCode::limit);
}

TEST_F(BundleFileTest, ChunksComeInFromManyThreads) {
  auto file = open();
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t i = 0; i < 8; ++i) {
      threads.emplace_back([&, i] { EXPECT_TRUE(file->put(ChunkIndex(i % 4), used(i % 4)).ok()); });
    }
  }
  EXPECT_TRUE(file->complete());
  EXPECT_EQ(file->count(), 4u);
}

TEST_F(BundleFileTest, RefusesRecordsThatCannotBe) {
  auto refused = [&](BundleRecord record, std::size_t roots) {
    auto file = BundleFile::open(dir_ / "other", record, std::vector<ChunkRoot>(roots));
    return !file.ok() && file.error().code == ErrorCode::malformed;
  };
  EXPECT_TRUE(refused(record_, 3));
  BundleRecord record = record_;
  record.chunk_bytes = kChunk + 1;
  EXPECT_TRUE(refused(record, 4));
  record = record_;
  record.used_bytes = 0;
  EXPECT_TRUE(refused(record, 0));
  record.used_bytes = limits::kMaxBundleBytes + 1;
  EXPECT_TRUE(refused(record, limits::kMaxBundleBytes / kChunk + 1));
}

}  // namespace
}  // namespace p2pw
