#include "daemon/swarm/blame.h"

#include <gtest/gtest.h>

namespace p2pw {
namespace {

std::vector<Sha256> hashes(std::vector<std::uint8_t> values) {
  std::vector<Sha256> all(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) all[i].data[0] = values[i];
  return all;
}

const ChunkIndex kChunk(7);
using Senders = std::vector<Blame::Sender>;

TEST(Blame, TheOnlySenderIsGuiltyAtOnce) {
  Blame blame;
  for (std::uint32_t block : {0u, 1u, 2u}) blame.received(kChunk, block, 3, 5);
  EXPECT_EQ(blame.failed(kChunk, hashes({1, 2, 3})), Senders{5});
}

TEST(Blame, OfSeveralTheOneWhoseBlockDiffersFromTheGoodOne) {
  Blame blame;
  blame.received(kChunk, 0, 3, 5);
  blame.received(kChunk, 1, 3, 6);
  blame.received(kChunk, 2, 3, 7);
  EXPECT_TRUE(blame.failed(kChunk, hashes({1, 99, 3})).empty());
  for (std::uint32_t block : {0u, 1u, 2u}) blame.received(kChunk, block, 3, 5);
  EXPECT_EQ(blame.passed(kChunk, hashes({1, 2, 3})), Senders{6});
  EXPECT_TRUE(blame.passed(kChunk, hashes({1, 2, 3})).empty());
}

TEST(Blame, EveryFailedAttemptCounts) {
  Blame blame;
  blame.received(kChunk, 0, 2, 1);
  blame.received(kChunk, 1, 2, 2);
  EXPECT_TRUE(blame.failed(kChunk, hashes({90, 2})).empty());
  blame.received(kChunk, 0, 2, 3);
  blame.received(kChunk, 1, 2, 4);
  EXPECT_TRUE(blame.failed(kChunk, hashes({1, 91})).empty());
  EXPECT_EQ(blame.passed(kChunk, hashes({1, 2})), (Senders{1, 4}));
}

TEST(Blame, ALateCopyOfABlockIsNotHeldAgainstItsSender) {
  Blame blame;
  blame.received(kChunk, 0, 1, 1);
  blame.received(kChunk, 0, 1, 2);
  EXPECT_EQ(blame.failed(kChunk, hashes({9})), Senders{1});
}

TEST(Blame, BytesThatCameAnotherWayAreForgotten) {
  Blame blame;
  blame.received(kChunk, 0, 1, 1);
  blame.forget(kChunk);
  EXPECT_TRUE(blame.failed(kChunk, hashes({9})).empty());
  EXPECT_TRUE(blame.failed(ChunkIndex(8), hashes({9})).empty());
}

TEST(Blame, BlocksOutsideTheChunkAreIgnored) {
  Blame blame;
  blame.received(kChunk, 3, 3, 1);
  EXPECT_TRUE(blame.failed(kChunk, hashes({1, 2, 3})).empty());
}

}  // namespace
}  // namespace p2pw
