#include "daemon/spread/credit.h"

#include <gtest/gtest.h>

#include <deque>

namespace p2pw {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr std::uint64_t kChunk = 512u << 10;

// A path of a rate and a round trip; chunks queue behind each other.
struct Path {
  Credit credit;
  SteadyTime now{};
  double bytes_per_second;
  microseconds round_trip;
  SteadyTime free{};
  struct Sent {
    SteadyTime at, back;
  };
  std::deque<Sent> sent;
  std::uint64_t delivered = 0;

  Path(double rate, microseconds rtt, Credit::Options options = {}) : credit(options), bytes_per_second(rate), round_trip(rtt) {
    now += std::chrono::hours(1);
    free = now;
  }
  void fill() {
    while (credit.may_send(kChunk)) {
      credit.sent(kChunk, now);
      const auto length = microseconds(static_cast<std::int64_t>(1e6 * kChunk / bytes_per_second));
      free = std::max(free, now) + length;
      sent.push_back({now, free + round_trip});
    }
  }
  void run(milliseconds time) {
    for (const SteadyTime end = now + time; now < end;) {
      fill();
      if (sent.empty()) return;
      now = sent.front().back;
      const auto took = std::chrono::duration_cast<microseconds>(now - sent.front().at);
      sent.pop_front();
      delivered += kChunk;
      credit.acked(kChunk, now, took, round_trip);
    }
  }
};

TEST(Credit, SettlesNearOneAndAHalfRateTimesBase) {
  for (double rate : {2e6, 12.5e6, 60e6}) {
    Path path(rate, milliseconds(145));
    path.run(milliseconds(8000));
    const double base = 0.145 + kChunk / rate;
    EXPECT_NEAR(static_cast<double>(path.credit.window()), 1.5 * rate * base, 0.35 * rate * base + kChunk) << rate;
    path.delivered = 0;
    path.run(milliseconds(4000));
    EXPECT_GT(static_cast<double>(path.delivered), 0.93 * 4 * rate) << rate;
  }
}

// A relay that had a small part of its region's access, and now has all of it.
TEST(Credit, MostlyFillsAPathThatHasBecomeWiderWithinFiveRounds) {
  Path path(2e6, milliseconds(230));
  path.run(milliseconds(15'000));
  path.bytes_per_second = 20e6;
  path.free = path.now;
  path.run(milliseconds(5 * 250));
  path.delivered = 0;
  path.run(milliseconds(1000));
  EXPECT_GT(static_cast<double>(path.delivered), 0.75 * 20e6);
}

TEST(Credit, AWindowThatIsNotNeededShrinks) {
  Path path(12.5e6, milliseconds(100));
  const std::uint64_t before = path.credit.window();
  for (int i = 0; i < 100; ++i) {  // one chunk at a time
    path.credit.sent(kChunk, path.now);
    path.now += milliseconds(150);
    path.credit.acked(kChunk, path.now, milliseconds(150), milliseconds(100));
  }
  EXPECT_LT(path.credit.window(), before / 4);
  EXPECT_TRUE(path.credit.may_send(kChunk));
}

TEST(Credit, ChokedItLetsOneChunkThroughUntilSomebodyAnswers) {
  Credit credit;
  const SteadyTime now{std::chrono::hours(1)};
  const std::uint64_t before = credit.window();
  credit.choke();
  ASSERT_TRUE(credit.may_send(kChunk));
  credit.sent(kChunk, now);
  EXPECT_FALSE(credit.may_send(kChunk));
  credit.lost(kChunk);
  credit.choke();  // again: what it was before is not forgotten
  credit.sent(kChunk, now);
  credit.acked(kChunk, now + milliseconds(10), milliseconds(10), milliseconds(10));
  EXPECT_EQ(credit.window(), before / 2);
}

}  // namespace
}  // namespace p2pw
