#include "daemon/spread/gateway_pace.h"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

namespace p2pw {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kChunk = 1 << 18;

NodeKey key_of(std::size_t n) {
  NodeKey key;
  key.data[0] = static_cast<std::uint8_t>(n);
  return key;
}

// Gateways that always have `depth` chunks under way, and acknowledge each after its time.
struct Gateways {
  struct One {
    std::chrono::milliseconds takes;
    std::size_t depth;
    std::deque<SteadyTime> sent;
    SteadyTime last{};
  };
  GatewayPace pace;
  SteadyTime now{1h};
  std::vector<One> all;

  explicit Gateways(std::vector<std::chrono::milliseconds> takes, std::size_t depth = 4) {
    for (auto t : takes) all.push_back({t, depth, {}, {}});
  }
  void run(std::chrono::milliseconds time) {
    for (auto end = now + time; now < end; now += 1ms) {
      for (std::size_t i = 0; i < all.size(); ++i) {
        One& one = all[i];
        while (!one.sent.empty() && now - one.sent.front() >= one.takes) {
          pace.acked(key_of(i), kChunk, one.sent.front(), now);
          one.sent.pop_front();
        }
        // Evenly spread over the time that one takes.
        if (one.sent.size() < one.depth && now - one.last >= one.takes / one.depth) {
          pace.sent(key_of(i), kChunk, now);
          one.sent.push_back(now);
          one.last = now;
        }
      }
    }
  }
};

TEST(GatewayPace, EqualOnesAreNotBehind) {
  Gateways w({120ms, 180ms, 200ms});
  w.run(5s);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_FALSE(w.pace.behind(key_of(i), w.now)) << i;
  }
}

TEST(GatewayPace, NobodyIsBehindAlone) {
  Gateways w({3000ms});
  w.run(10s);
  EXPECT_FALSE(w.pace.behind(key_of(0), w.now));
}

TEST(GatewayPace, WhoseChunksTakeMuchLongerIsBehind) {
  Gateways w({120ms, 120ms, 600ms});
  w.run(2s);
  EXPECT_TRUE(w.pace.behind(key_of(2), w.now));
  EXPECT_FALSE(w.pace.behind(key_of(0), w.now));
  // Four chunks in 600 ms.
  EXPECT_NEAR(w.pace.rate(key_of(2), w.now), 4 * kChunk / 0.6, 0.15 * 4 * kChunk / 0.6);
}

TEST(GatewayPace, WhoStopsIsBehindAtOnce) {
  Gateways w({120ms, 120ms, 120ms});
  w.run(1s);
  w.all[2].takes = 1h;
  w.run(500ms);
  EXPECT_TRUE(w.pace.behind(key_of(2), w.now));
}

TEST(GatewayPace, WhenAllStopTheAccessIsCutAndNobodyIsBehind) {
  Gateways w({120ms, 130ms, 140ms});
  w.run(1s);
  for (auto& one : w.all) one.takes = 1h;
  for (int i = 0; i < 80; ++i) {
    w.run(100ms);
    for (std::size_t k = 0; k < 3; ++k) ASSERT_FALSE(w.pace.behind(key_of(k), w.now)) << i;
  }
}

TEST(GatewayPace, WhoRecoversIsNotBehindAnyMore) {
  Gateways w({120ms, 120ms, 600ms});
  w.run(2s);
  w.all[2].takes = 120ms;
  w.run(2s);
  EXPECT_FALSE(w.pace.behind(key_of(2), w.now));
}

TEST(GatewayPace, WhatIsLostIsNotUnderWay) {
  GatewayPace pace;
  SteadyTime now{1h};
  pace.sent(key_of(0), kChunk, now);
  pace.sent(key_of(0), kChunk, now + 1ms);
  EXPECT_EQ(pace.under_way(key_of(0)), 2 * kChunk);
  pace.lost(key_of(0), kChunk, now);
  EXPECT_EQ(pace.under_way(key_of(0)), kChunk);
  pace.acked(key_of(0), kChunk, now + 1ms, now + 100ms);
  EXPECT_EQ(pace.under_way(key_of(0)), 0u);
}

TEST(GatewayPace, WhatWasBeforeAPauseSaysNothing) {
  Gateways w({120ms, 600ms});
  w.run(2s);
  ASSERT_TRUE(w.pace.behind(key_of(1), w.now));
  for (auto& one : w.all) {
    for (auto& sent : one.sent) w.pace.lost(key_of(&one == &w.all[1]), kChunk, sent);
    one.sent.clear();
  }
  w.now += 1min;
  w.run(500ms);
  EXPECT_FALSE(w.pace.behind(key_of(1), w.now)) << "too few chunks";
  w.run(2s);
  EXPECT_TRUE(w.pace.behind(key_of(1), w.now));
}

TEST(GatewayPace, MoreUnderWayIsNotSlow) {
  Gateways w({120ms, 480ms});
  w.all[1].depth = 16;
  w.run(3s);
  EXPECT_FALSE(w.pace.behind(key_of(1), w.now));
}

TEST(GatewayPace, RestsForAWhile) {
  GatewayPace pace;
  SteadyTime now{1h};
  pace.rest(key_of(0), now);
  EXPECT_TRUE(pace.rests(key_of(0), now + GatewayPace::kRest - 1s));
  EXPECT_FALSE(pace.rests(key_of(0), now + GatewayPace::kRest));
  EXPECT_FALSE(pace.rests(key_of(1), now));
}

}  // namespace
}  // namespace p2pw
