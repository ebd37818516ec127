#include "daemon/swarm/neighbours.h"

#include <gtest/gtest.h>

namespace p2pw {
namespace {

using namespace std::chrono_literals;

NodeKey key(std::uint8_t number) {
  NodeKey k;
  k.data[0] = number;
  return k;
}

SwarmPeer peer(std::uint8_t number, std::string address = "10.0.0.1", std::uint16_t port = 100) {
  return {key(number), std::move(address), port};
}

TEST(Neighbours, TellsWhoJoinedAndWhoLeft) {
  Neighbours neighbours(key(5));
  auto change = neighbours.set({peer(9), peer(1), peer(5), peer(1)});
  EXPECT_EQ(change.joined, (std::vector{peer(1), peer(9)}));
  EXPECT_TRUE(change.left.empty());
  EXPECT_EQ(neighbours.all().size(), 2u);

  change = neighbours.set({peer(9), peer(2)});
  EXPECT_EQ(change.joined, std::vector{peer(2)});
  EXPECT_EQ(change.left, std::vector{peer(1)});
}

TEST(Neighbours, AMoveIsLeavingAndJoining) {
  Neighbours neighbours(key(5));
  neighbours.set({peer(1, "10.0.0.1")});
  auto change = neighbours.set({peer(1, "10.0.0.2")});
  EXPECT_EQ(change.joined, std::vector{peer(1, "10.0.0.2")});
  EXPECT_EQ(change.left, std::vector{peer(1, "10.0.0.1")});
}

TEST(Neighbours, OfTwoExactlyOneDials) {
  for (std::uint8_t a = 1; a < 5; ++a) {
    for (std::uint8_t b = 1; b < 5; ++b) {
      if (a == b) continue;
      EXPECT_NE(Neighbours(key(a)).we_dial(peer(b)), Neighbours(key(b)).we_dial(peer(a)));
    }
  }
}

TEST(Neighbours, FindsByKeyAndByAddress) {
  Neighbours neighbours(key(5));
  neighbours.set({peer(1, "10.0.0.1", 7), peer(2, "10.0.0.1", 8), peer(3, "10.0.0.3", 7)});
  EXPECT_EQ(*neighbours.find(key(2)), peer(2, "10.0.0.1", 8));
  EXPECT_EQ(neighbours.find(key(4)), nullptr);
  EXPECT_EQ(*neighbours.find("10.0.0.1", 7), peer(1, "10.0.0.1", 7));
  EXPECT_EQ(neighbours.find("10.0.0.3", 8), nullptr);
  EXPECT_EQ(neighbours.at("10.0.0.1").size(), 2u);
  EXPECT_TRUE(neighbours.knows("10.0.0.3"));
  EXPECT_FALSE(neighbours.knows("10.0.0.4"));
}

TEST(DialTimer, WaitsDoubleAndThenEndUntilThereIsANewReason) {
  DialTimer timer;
  auto now = DialTimer::Clock::time_point() + 1h;
  auto wait = DialTimer::kFirst;
  int dials = 0;
  while (true) {
    timer.plan(now);
    if (!timer.at()) break;
    EXPECT_EQ(*timer.at(), now + wait);
    EXPECT_FALSE(timer.due(now));
    now += wait;
    EXPECT_TRUE(timer.due(now));
    EXPECT_FALSE(timer.due(now));
    wait *= 2;
    ASSERT_LT(++dials, 20);
  }
  EXPECT_EQ(dials, 8);
  timer.restart();
  timer.plan(now);
  EXPECT_EQ(*timer.at(), now + DialTimer::kFirst);
}

TEST(DialTimer, APlannedDialIsNotPutOff) {
  DialTimer timer;
  const auto now = DialTimer::Clock::time_point() + 1h;
  timer.plan(now);
  timer.plan(now + 3ms);
  EXPECT_EQ(*timer.at(), now + DialTimer::kFirst);
}

TEST(Owed, StallsOnlyWhenSomethingIsOwedAndNothingComes) {
  Owed owed;
  auto now = Owed::Clock::time_point() + 1h;
  EXPECT_FALSE(owed.stalled(now, 0s));
  owed.requested(now);
  owed.requested(now);
  EXPECT_FALSE(owed.stalled(now + 1s, 2s));
  EXPECT_TRUE(owed.stalled(now + 2s, 2s));
  owed.answered(now + 2s);
  EXPECT_FALSE(owed.stalled(now + 3s, 2s));
  EXPECT_TRUE(owed.stalled(now + 4s, 2s));
  owed.answered(now + 4s);
  EXPECT_FALSE(owed.stalled(now + 1h, 2s));
  // The clock begins when something is owed again, not with the last answer.
  owed.requested(now + 1h);
  EXPECT_FALSE(owed.stalled(now + 1h + 1s, 2s));
  owed.cleared();
  EXPECT_FALSE(owed.stalled(now + 2h, 2s));
}

}  // namespace
}  // namespace p2pw
