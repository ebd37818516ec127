#include "daemon/spread/gateway_pace.h"

#include <gtest/gtest.h>

namespace p2pw {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kChunk = 1 << 20;

NodeKey key_of(std::uint8_t n) {
  NodeKey key;
  key.data[0] = n;
  return key;
}

// Three gateways, ten looks a second; bytes per second of each.
struct ThreeGateways {
  GatewayPace pace;
  SteadyTime now{};
  std::vector<NodeKey> found;

  void run(std::chrono::milliseconds time, std::vector<double> rates, bool idle = false) {
    for (auto end = now + time; now < end; now += 100ms) {
      std::set<NodeKey> busy;
      for (std::size_t i = 0; i < rates.size(); ++i) {
        if (rates[i] < 0) continue;  // has nothing to take in
        busy.insert(key_of(static_cast<std::uint8_t>(i)));
        pace.acked(key_of(static_cast<std::uint8_t>(i)), static_cast<std::uint64_t>(rates[i] / 10));
      }
      for (auto& key : pace.look(busy, [idle] { return idle; }, kChunk, 86ms, now)) found.push_back(key);
    }
  }
};

TEST(GatewayPace, EqualOnesAreNotJudged) {
  ThreeGateways w;
  w.run(20s, {8e6, 7e6, 6e6});
  EXPECT_TRUE(w.found.empty());
}

TEST(GatewayPace, WhoGetsLessThanHalfInTwoPeriodsIsSlowForAWhile) {
  ThreeGateways w;
  w.run(2500ms, {8e6, 8e6, 3e6});
  EXPECT_TRUE(w.found.empty()) << "of the first period it is not known whether it still grows";
  w.run(1s, {8e6, 8e6, 3e6});
  ASSERT_EQ(w.found.size(), 1u);
  EXPECT_EQ(w.found[0], key_of(2));
  EXPECT_TRUE(w.pace.slow(key_of(2), w.now));
  EXPECT_FALSE(w.pace.slow(key_of(1), w.now));
  w.run(5s, {8e6, 8e6, 3e6});
  EXPECT_EQ(w.found.size(), 1u) << "said once";
  EXPECT_FALSE(w.pace.slow(key_of(2), w.now + GatewayPace::kSlowFor));
}

TEST(GatewayPace, ColdConnectionsGetTime) {
  ThreeGateways w;
  double cold = 0.5e6;
  for (int i = 0; i < 5; ++i, cold *= 1.6) w.run(1s, {8e6, 8e6, cold});
  w.run(3s, {8e6, 8e6, 6e6});
  EXPECT_TRUE(w.found.empty());
}

TEST(GatewayPace, APauseIsForgiven) {
  ThreeGateways w;
  for (int i = 0; i < 8; ++i) {
    w.run(1200ms, {8e6, 8e6, 1e6});
    w.run(2400ms, {8e6, 8e6, 8e6});
  }
  EXPECT_TRUE(w.found.empty());
}

TEST(GatewayPace, WhoeverIsLeftAloneIsNotJudged) {
  ThreeGateways w;
  w.run(3s, {8e6, 8e6, 8e6});
  w.run(5s, {-1, -1, 2e6});
  EXPECT_TRUE(w.found.empty());
}

TEST(GatewayPace, WhoeverIsLeftWhileTheLinkRunsDryIsSlow) {
  ThreeGateways w;
  w.run(3s, {8e6, 8e6, 5e6});
  w.run(1500ms, {-1, -1, 6e6}, true);
  ASSERT_EQ(w.found.size(), 1u);
  EXPECT_EQ(w.found[0], key_of(2));
}

TEST(GatewayPace, WhoeverIsLeftAndTakesAllThereIsIsNot) {
  ThreeGateways w;
  w.run(3s, {8e6, 8e6, 8e6});
  w.run(5s, {-1, -1, 24e6}, true);
  EXPECT_TRUE(w.found.empty());
}

TEST(GatewayPace, AFewChunksSayNothing) {
  ThreeGateways w;
  w.run(10s, {1.5e6, 1.5e6, 0.1e6});
  EXPECT_TRUE(w.found.empty());
}

}  // namespace
}  // namespace p2pw
