#include "daemon/spread/handing_on.h"

#include <gtest/gtest.h>

namespace p2pw {
namespace {

using std::chrono::milliseconds;

class HandingOnTest : public ::testing::Test {
 protected:
  static BundleId bundle(int i) {
    BundleId id;
    id.data[0] = static_cast<std::uint8_t>(i);
    return id;
  }
  static NodeKey node(int i) {
    NodeKey key;
    key.data[0] = static_cast<std::uint8_t>(i);
    return key;
  }
  bool stored(std::uint32_t chunk, int b = 1, int from = 1) {
    return handing_on.stored({bundle(b), ChunkIndex(chunk), node(from), Epoch(3)}, now);
  }
  static std::vector<std::uint32_t> numbers(const HandingOn::Chunks& chunks) {
    std::vector<std::uint32_t> out;
    for (auto& c : chunks) out.push_back(c.chunk.value());
    return out;
  }
  std::vector<std::uint32_t> handed_on(std::uint32_t chunk, int b = 1) {
    return numbers(handing_on.handed_on(bundle(b), ChunkIndex(chunk), now));
  }
  std::vector<std::uint32_t> tick() { return numbers(handing_on.tick(now)); }
  void pass(milliseconds time) { now += time; }

  // Chunk 0 lies here for too long.
  void jam() {
    EXPECT_TRUE(stored(0));
    pass(HandingOn::kJam + milliseconds(1));
  }

  using Numbers = std::vector<std::uint32_t>;
  HandingOn handing_on;
  SteadyTime now{std::chrono::hours(1)};
};

TEST_F(HandingOnTest, WhileNeighboursTakeThemChunksAreAcknowledgedAtOnce) {
  for (std::uint32_t i = 0; i < 100; ++i) {
    EXPECT_TRUE(stored(i));
    pass(milliseconds(10));
    if (i >= 10) {
      EXPECT_EQ(handed_on(i - 10), Numbers{});
    }
  }
}

TEST_F(HandingOnTest, InAJamTheyAreAcknowledgedAsTheyAreHandedOn) {
  jam();
  EXPECT_FALSE(stored(1));
  EXPECT_FALSE(stored(2));
  pass(milliseconds(10));
  EXPECT_EQ(handed_on(2), Numbers{2});
  EXPECT_EQ(tick(), Numbers{});
  EXPECT_EQ(handed_on(1), Numbers{1});
}

TEST_F(HandingOnTest, TheEndOfTheJamAcknowledgesWhatWaits) {
  jam();
  EXPECT_FALSE(stored(1));
  EXPECT_FALSE(stored(2, 2));
  EXPECT_EQ(handed_on(0), (Numbers{1, 2}));
  EXPECT_TRUE(stored(3));
  EXPECT_EQ(handed_on(1), Numbers{}) << "acknowledged once";
}

// Neighbours that have come to a stop must not stop the region's intake.
TEST_F(HandingOnTest, NoAcknowledgementWaitsForLong) {
  jam();
  EXPECT_FALSE(stored(1));
  pass(HandingOn::kPatience);
  EXPECT_EQ(tick(), Numbers{});
  pass(milliseconds(1));
  EXPECT_EQ(tick(), Numbers{1});
  EXPECT_EQ(tick(), Numbers{});
  EXPECT_EQ(handed_on(1), Numbers{});
}

TEST_F(HandingOnTest, WhatNobodyEverTakesIsForgotten) {
  jam();
  pass(HandingOn::kForgotten);
  EXPECT_EQ(tick(), Numbers{});
  EXPECT_TRUE(stored(1));
}

TEST_F(HandingOnTest, ABundleThatIsDroppedIsAcknowledged) {
  jam();
  EXPECT_FALSE(stored(1, 2));
  EXPECT_FALSE(stored(2, 3));
  EXPECT_EQ(numbers(handing_on.forget(bundle(2))), Numbers{1});
  EXPECT_EQ(numbers(handing_on.forget(bundle(1))), Numbers{}) << "chunk 0 had been acknowledged";
  EXPECT_TRUE(stored(3, 3)) << "chunk 2 has not been here for long";
}

TEST_F(HandingOnTest, WhoIsLostIsOwedNothing) {
  jam();
  EXPECT_FALSE(stored(1, 1, 1));
  EXPECT_FALSE(stored(2, 1, 2));
  handing_on.peer_lost(node(1));
  EXPECT_EQ(handed_on(0), Numbers{2});
}

TEST_F(HandingOnTest, AnAcknowledgementSaysWhoseAndWhat) {
  jam();
  EXPECT_FALSE(stored(7, 5, 9));
  const auto chunks = handing_on.handed_on(bundle(5), ChunkIndex(7), now);
  ASSERT_EQ(chunks.size(), 1u);
  EXPECT_EQ(chunks[0].bundle, bundle(5));
  EXPECT_EQ(chunks[0].from, node(9));
  EXPECT_EQ(chunks[0].epoch, Epoch(3));
}

}  // namespace
}  // namespace p2pw
