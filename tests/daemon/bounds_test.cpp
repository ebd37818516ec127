// What a hostile member can make a node remember, and how much work it can make.
#include <gtest/gtest.h>

#include "daemon/core/early_chunks.h"
#include "daemon/core/early_metas.h"
#include "daemon/core/fleet_states.h"
#include "daemon/core/peer_budget.h"
#include "daemon/core/recent_set.h"

namespace p2pw {
namespace {

template <class Id>
Id id_of(std::uint32_t n) {
  Id id;
  for (int i = 0; i < 4; ++i) id.data[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(n >> (8 * i));
  return id;
}

TEST(RecentSet, ForgetsTheOldest) {
  RecentSet<int> set(3);
  for (int i : {1, 2, 3}) EXPECT_TRUE(set.insert(i));
  EXPECT_FALSE(set.insert(1));
  EXPECT_TRUE(set.insert(4));
  EXPECT_FALSE(set.contains(1));
  EXPECT_TRUE(set.contains(2));
  EXPECT_TRUE(set.erase(2));
  EXPECT_FALSE(set.erase(2));
  for (int i = 10; i < 1000; ++i) set.insert(i);
  EXPECT_EQ(set.size(), 3u);
}

TEST(PeerBudget, RunsOutAndComesBack) {
  PeerBudget budget(10, 2);
  const auto start = PeerBudget::Time() + std::chrono::hours(1);
  const auto peer = id_of<NodeKey>(1);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(budget.spend(peer, start));
  EXPECT_FALSE(budget.spend(peer, start));
  EXPECT_TRUE(budget.spend(id_of<NodeKey>(2), start)) << "others are not to blame";
  EXPECT_TRUE(budget.spend(peer, start + std::chrono::seconds(1)));
  EXPECT_TRUE(budget.spend(peer, start + std::chrono::seconds(1)));
  EXPECT_FALSE(budget.spend(peer, start + std::chrono::seconds(1)));
  budget.forget_quiet(start + std::chrono::seconds(2));
  EXPECT_EQ(budget.size(), 2u);
  budget.forget_quiet(start + std::chrono::seconds(7));
  EXPECT_EQ(budget.size(), 0u);
}

TEST(EarlyChunks, EmptyOnesCountToo) {
  EarlyChunks chunks(1u << 20);
  for (std::uint32_t i = 0; i < 100'000; ++i) chunks.add(id_of<BundleId>(i), {id_of<NodeKey>(1), ChunkIndex(0), Epoch(1), {}});
  EXPECT_LE(chunks.bytes(), 1u << 20);
  EXPECT_LE(chunks.bundles(), (1u << 20) / EarlyChunks::kOverhead);
  EXPECT_TRUE(chunks.take(id_of<BundleId>(0)).empty());
  EXPECT_EQ(chunks.take(id_of<BundleId>(99'999)).size(), 1u);
}

TEST(EarlyChunks, OneBundleCannotHoldMoreThanAll) {
  EarlyChunks chunks(1u << 20);
  for (std::uint32_t i = 0; i < 1000; ++i) {
    chunks.add(id_of<BundleId>(7), {id_of<NodeKey>(1), ChunkIndex(i), Epoch(1), Bytes(10'000)});
    ASSERT_LE(chunks.bytes(), 1u << 20);
  }
}

TEST(EarlyMetas, AreBoundedInBytesAndTheNewestStay) {
  EarlyMetas metas(1000, 1u << 20);
  for (std::uint32_t i = 0; i < 100; ++i) metas.add(id_of<BundleId>(i), Bytes(100'000));
  EXPECT_LE(metas.bytes(), 1u << 20);
  EXPECT_FALSE(metas.take(id_of<BundleId>(0)));
  EXPECT_TRUE(metas.take(id_of<BundleId>(99)));
  EarlyMetas few(10, 1u << 20);
  for (std::uint32_t i = 0; i < 100; ++i) few.add(id_of<BundleId>(i), {});
  EXPECT_EQ(few.size(), 10u);
}

class FleetStatesBounds : public ::testing::Test {
 protected:
  static Member member(std::uint32_t n, const char* region) {
    Member m;
    m.key = id_of<NodeKey>(n);
    m.region = Region::parse(region).value();
    return m;
  }
  static wire::NodeState state(std::uint32_t n, const std::string& channel) {
    wire::NodeState s;
    s.set_node(std::string(id_of<NodeKey>(n).text()));
    s.set_channel(channel);
    s.set_region("eu");
    s.set_state("idle");
    s.set_at_ms(5);
    return s;
  }
  std::vector<Member> members{member(1, "eu"), member(2, "asia")};
};

TEST_F(FleetStatesBounds, ChannelsThatNobodyFollowsAreBounded) {
  FleetStates states;
  for (int i = 0; i < 10'000; ++i) states.hear(state(1, "c" + std::to_string(i)), members);
  EXPECT_LE(states.all().size(), FleetStates::kMaxChannelsOfNode);
}

TEST_F(FleetStatesBounds, TextIsCutAndCleaned) {
  FleetStates states;
  auto s = state(1, "policy");
  s.set_name(std::string(60'000, 'x') + "\x1b[2J");
  s.set_state(std::string(60'000, 'y'));
  for (int i = 0; i < 5000; ++i) s.add_times()->set_version(1);
  ASSERT_TRUE(states.hear(s, members));
  EXPECT_LE(states.all()[0].ByteSizeLong(), 1000u);
}

TEST_F(FleetStatesBounds, TheRegionIsTheMembers) {
  FleetStates states;
  ASSERT_TRUE(states.hear(state(2, "policy"), members));
  EXPECT_EQ(states.all()[0].region(), "asia");
}

}  // namespace
}  // namespace p2pw
