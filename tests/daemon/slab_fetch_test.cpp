#include "daemon/core/slab_fetch.h"

#include <gtest/gtest.h>

namespace p2pw {
namespace {

NodeKey key(std::uint8_t n) {
  NodeKey k;
  k.data[0] = n;
  return k;
}

class SlabFetchTest : public ::testing::Test {
 protected:
  std::vector<std::pair<NodeKey, SlabId>> asked_;
  SlabFetch fetch_{[this](const NodeKey& peer, SlabId slab) { asked_.emplace_back(peer, slab); }};
  SteadyTime now_{std::chrono::hours(1)};
  std::vector<NodeKey> peers_{key(1), key(2), key(3)};
};

TEST_F(SlabFetchTest, ManyNeighboursGiveAtOnceAndEachIsAskedForAFew) {
  for (std::uint32_t i = 0; i < 100; ++i) fetch_.want(SlabId::tensor(i));
  fetch_.tick(peers_, now_);
  std::map<NodeKey, std::size_t> load;
  std::set<SlabId> slabs;
  for (auto& [peer, slab] : asked_) {
    ++load[peer];
    slabs.insert(slab);
  }
  EXPECT_EQ(slabs.size(), asked_.size()) << "a slab was asked for twice";
  EXPECT_EQ(load.size(), 3u);
  for (auto& [peer, count] : load) EXPECT_EQ(count, SlabFetch::kPerPeer);
  // An answer makes room for the next one, at the same neighbour.
  auto [peer, slab] = asked_.front();
  EXPECT_TRUE(fetch_.answered(peer, slab, false, now_));
  EXPECT_FALSE(fetch_.wanted(slab));
  fetch_.fill(peers_, now_);
  EXPECT_EQ(asked_.back().first, peer);
  EXPECT_EQ(fetch_.open(), 99u);
}

TEST_F(SlabFetchTest, WhoDeclinesOrIsSilentIsNotAskedAgainBeforeTheOthers) {
  fetch_.want(SlabId::tensor(7));
  fetch_.tick(peers_, now_);
  ASSERT_EQ(asked_.size(), 1u);
  EXPECT_TRUE(fetch_.answered(asked_[0].first, SlabId::tensor(7), true, now_));
  fetch_.tick(peers_, now_);
  ASSERT_EQ(asked_.size(), 2u);
  EXPECT_NE(asked_[1].first, asked_[0].first);
  now_ += SlabFetch::kPatience;
  fetch_.tick(peers_, now_);
  ASSERT_EQ(asked_.size(), 3u);
  EXPECT_NE(asked_[2].first, asked_[0].first);
  EXPECT_NE(asked_[2].first, asked_[1].first);
  // All have declined: another round after a pause.
  EXPECT_TRUE(fetch_.answered(asked_[2].first, SlabId::tensor(7), true, now_));
  fetch_.tick(peers_, now_);
  EXPECT_EQ(asked_.size(), 3u);
  now_ += SlabFetch::kPause;
  fetch_.tick(peers_, now_);
  EXPECT_EQ(asked_.size(), 4u);
}

TEST_F(SlabFetchTest, AnswersOfOthersDoNotCount) {
  fetch_.want(SlabId::tensor(7));
  fetch_.tick({key(1)}, now_);
  EXPECT_FALSE(fetch_.answered(key(2), SlabId::tensor(7), false, now_));
  EXPECT_FALSE(fetch_.answered(key(1), SlabId::tensor(8), false, now_));
  EXPECT_TRUE(fetch_.wanted(SlabId::tensor(7)));
}

TEST_F(SlabFetchTest, ANeighbourThatGaveWrongBytesIsLeftAloneForAWhile) {
  fetch_.bad(key(1), now_);
  fetch_.want(SlabId::tensor(1));
  fetch_.tick({key(1)}, now_);
  EXPECT_TRUE(asked_.empty());
  now_ += SlabFetch::kBanned + SlabFetch::kPause;
  fetch_.tick({key(1)}, now_);
  EXPECT_EQ(asked_.size(), 1u);
}

TEST_F(SlabFetchTest, WhatALostNeighbourOwedIsAskedOfAnother) {
  fetch_.want(SlabId::tensor(1));
  fetch_.tick({key(1)}, now_);
  fetch_.peer_lost(key(1));
  fetch_.tick({key(2)}, now_);
  ASSERT_EQ(asked_.size(), 2u);
  EXPECT_EQ(asked_[1].first, key(2));
  EXPECT_FALSE(fetch_.answered(key(1), SlabId::tensor(1), false, now_));
}

TEST_F(SlabFetchTest, AVersionThatIsNotKnownYetIsAskedForAgainLater) {
  fetch_.want(SlabId::tensor(1));
  fetch_.tick({key(1)}, now_);
  ASSERT_TRUE(fetch_.answered(key(1), SlabId::tensor(1), false, now_));
  fetch_.again(SlabId::tensor(1), now_);
  fetch_.tick({key(1)}, now_);
  EXPECT_EQ(asked_.size(), 1u);
  now_ += SlabFetch::kPause;
  fetch_.tick({key(1)}, now_);
  EXPECT_EQ(asked_.size(), 2u);
}

}  // namespace
}  // namespace p2pw
