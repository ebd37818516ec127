#include "daemon/swarm/request_window.h"

#include <gtest/gtest.h>

#include <deque>

namespace p2pw {
namespace {

using Clock = RequestWindow::Clock;
using std::chrono::duration_cast;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr std::uint64_t kBlock = 16u << 10;

// A neighbour behind a cable with a queue of its own: blocks leave it one after the other, each a round trip and its
// place in the queue after it was asked for.
class Path {
 public:
  Path(double bytes_per_second, microseconds round_trip) : rate_(bytes_per_second), round_trip_(round_trip) {}

  void set_rate(double bytes_per_second) { rate_ = bytes_per_second; }

  // Asks for as much as the window allows, all the time, for so long. Returns the bytes that came.
  std::uint64_t run(RequestWindow& window, milliseconds time) {
    std::uint64_t came = 0;
    for (const auto end = now_ + time; now_ < end;) {
      while (window.open()) {
        window.asked(kBlock);
        idle_from_ = std::max(idle_from_, now_) + microseconds(static_cast<std::int64_t>(1e6 * kBlock / rate_));
        coming_.push_back({now_, idle_from_ + round_trip_});
      }
      now_ = coming_.front().arrives;
      window.answered(kBlock, coming_.front().asked, now_);
      came += kBlock;
      coming_.pop_front();
    }
    return came;
  }
  double queue_seconds() const { return std::chrono::duration<double>(idle_from_ - now_).count(); }

 private:
  struct Block {
    Clock::time_point asked, arrives;
  };
  double rate_;
  microseconds round_trip_;
  Clock::time_point now_{std::chrono::hours(1)}, idle_from_{};
  std::deque<Block> coming_;
};

// 100 Mbit/s: a second's worth would stand there for a second.
TEST(RequestWindow, KeepsASlowCablesQueueShort) {
  RequestWindow window;
  Path path(12.5e6, milliseconds(1));
  path.run(window, milliseconds(1000));
  const auto came = path.run(window, milliseconds(2000));
  EXPECT_GT(came, 0.95 * 2 * 12.5e6);
  EXPECT_LT(path.queue_seconds(), 0.08);
  EXPECT_GT(path.queue_seconds(), 0.02);
}

TEST(RequestWindow, FillsAFastCable) {
  RequestWindow window;
  Path path(1.25e9, milliseconds(1));
  path.run(window, milliseconds(500));
  EXPECT_GT(path.run(window, milliseconds(500)), 0.95 * 0.5 * 1.25e9);
}

TEST(RequestWindow, FollowsACableThatBecomesSlower) {
  RequestWindow window;
  Path path(125e6, milliseconds(1));
  path.run(window, milliseconds(500));
  path.set_rate(6.25e6);
  path.run(window, milliseconds(3000));
  EXPECT_LT(path.queue_seconds(), 0.08);
}

TEST(RequestWindow, DoesNotGrowUnused) {
  RequestWindow window;
  Clock::time_point now{std::chrono::hours(1)};
  for (int i = 0; i < 1000; ++i) {
    window.asked(kBlock);
    now += milliseconds(1);
    window.answered(kBlock, now - milliseconds(1), now);
  }
  EXPECT_EQ(window.bytes(), RequestWindow::kFirst);
}

TEST(RequestWindow, ANeighbourThatIsBusyIsStillAsked) {
  RequestWindow window;
  Path path(1e5, milliseconds(400));
  path.run(window, milliseconds(60'000));
  EXPECT_GE(window.bytes(), RequestWindow::kLeast);
  EXPECT_LT(window.bytes(), RequestWindow::kLeast + 2 * kBlock);
}

TEST(RequestWindow, WhatIsLostMakesRoom) {
  RequestWindow window;
  window.asked(RequestWindow::kFirst);
  EXPECT_FALSE(window.open());
  window.lost(kBlock);
  EXPECT_TRUE(window.open());
  window.lost(2 * RequestWindow::kFirst);
  EXPECT_EQ(window.in_flight(), 0u);
}

}  // namespace
}  // namespace p2pw
