#include "daemon/swarm/request_pacer.h"

#include <gtest/gtest.h>

namespace p2pw {
namespace {

using Clock = RequestPacer::Clock;
using Request = RequestPacer::Request;

constexpr int kBlock = 16 << 10;
constexpr int kRoom = static_cast<int>(RequestWindow::kFirst) / kBlock;

Request block(int i) { return {i / 16, i % 16 * kBlock, kBlock}; }

class RequestPacerTest : public testing::Test {
 protected:
  bool ask(char& connection, int i, const std::string& neighbour = "a") {
    return pacer.ask(neighbour, &connection, block(i), now);
  }
  void answer(char& connection, int i) {
    now += std::chrono::milliseconds(1);
    pacer.answered(&connection, block(i), now);
  }
  void fill(char& connection, const std::string& neighbour = "a") {
    for (int i = 0; i < kRoom; ++i) ASSERT_TRUE(ask(connection, i, neighbour));
  }

  RequestPacer pacer;
  Clock::time_point now{std::chrono::hours(1)};
  char one = 0, two = 0, other = 0;  // connections
};

TEST_F(RequestPacerTest, WhatHasNoRoomWaitsInItsOrder) {
  fill(one);
  EXPECT_FALSE(ask(one, 1000));
  EXPECT_FALSE(ask(two, 2000));
  EXPECT_FALSE(pacer.due(now));
  answer(one, 0);
  auto due = pacer.due(now);
  ASSERT_TRUE(due);
  EXPECT_EQ(due->connection, &one);
  EXPECT_EQ(due->request, block(1000));
  EXPECT_FALSE(due->cancelled);
  EXPECT_FALSE(pacer.due(now));
  answer(one, 1);
  due = pacer.due(now);
  ASSERT_TRUE(due);
  EXPECT_EQ(due->connection, &two);
  EXPECT_EQ(pacer.window("a")->in_flight(), RequestWindow::kFirst);
}

// Else a connection that asks all the time would pass by those that wait.
TEST_F(RequestPacerTest, NobodyPassesThoseThatWait) {
  fill(one);
  EXPECT_FALSE(ask(one, 1000));
  answer(one, 0);
  EXPECT_FALSE(ask(two, 2000));
  EXPECT_EQ(pacer.due(now)->request, block(1000));
}

TEST_F(RequestPacerTest, NeighboursHaveRoomOfTheirOwn) {
  fill(one);
  EXPECT_FALSE(ask(one, 1000));
  EXPECT_TRUE(ask(other, 0, "b"));
}

TEST_F(RequestPacerTest, WhatWaitsAndIsCancelledGoesOutAtOnce) {
  fill(one);
  EXPECT_FALSE(ask(one, 1000));
  EXPECT_FALSE(ask(one, 1001));
  EXPECT_TRUE(pacer.cancelled(&one, block(1001)));
  auto due = pacer.due(now);
  ASSERT_TRUE(due);
  EXPECT_EQ(due->request, block(1001));
  EXPECT_TRUE(due->cancelled);
  EXPECT_FALSE(pacer.due(now));
}

TEST_F(RequestPacerTest, WhatIsUnderWayAndCancelledIsStillAnswered) {
  fill(one);
  EXPECT_FALSE(pacer.cancelled(&one, block(3)));
  EXPECT_FALSE(pacer.due(now));
  EXPECT_EQ(pacer.window("a")->in_flight(), RequestWindow::kFirst);
  answer(one, 3);
  EXPECT_EQ(pacer.window("a")->in_flight(), RequestWindow::kFirst - kBlock);
}

TEST_F(RequestPacerTest, AChokedConnectionsRequestsGoOutToBeRefused) {
  fill(one);
  EXPECT_FALSE(ask(one, 1000));
  EXPECT_FALSE(ask(two, 2000));
  pacer.choked(&two);
  EXPECT_EQ(pacer.due(now)->request, block(2000));
  EXPECT_FALSE(pacer.due(now));
}

TEST_F(RequestPacerTest, AClosedConnectionLeavesNothingBehind) {
  fill(one);
  EXPECT_FALSE(ask(one, 1000));
  EXPECT_FALSE(ask(one, 1001));
  EXPECT_FALSE(ask(two, 2000));
  pacer.cancelled(&one, block(1001));
  pacer.closed(&one);
  auto due = pacer.due(now);
  ASSERT_TRUE(due);
  EXPECT_EQ(due->connection, &two);
  EXPECT_FALSE(pacer.due(now));
  EXPECT_EQ(pacer.window("a")->in_flight(), std::uint64_t(kBlock));
}

TEST_F(RequestPacerTest, WhatNobodyAskedForCountsForNothing) {
  pacer.answered(&one, block(0), now);
  EXPECT_TRUE(ask(one, 0));
  answer(one, 1);
  EXPECT_EQ(pacer.window("a")->in_flight(), std::uint64_t(kBlock));
  answer(one, 0);
  answer(one, 0);
  EXPECT_EQ(pacer.window("a")->in_flight(), 0u);
}

}  // namespace
}  // namespace p2pw
