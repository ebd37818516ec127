// The small pure parts of links: pairing, clocks, tuning, rates, admission, pauses, queues.
#include <gtest/gtest.h>

#include "daemon/link/admission.h"
#include "daemon/link/backoff.h"
#include "daemon/link/clock_sync.h"
#include "daemon/link/pairing.h"
#include "daemon/link/rate_limit.h"
#include "daemon/link/rate_meter.h"
#include "daemon/link/send_queue.h"
#include "daemon/link/tuning.h"
#include "daemon/link/warm_up.h"

namespace p2pw {
namespace {

using namespace std::chrono_literals;
using Time = std::chrono::steady_clock::time_point;

TEST(LinkPairing, ExactlyOneOfTwoCrossedOffersIsAccepted) {
  const PairVerdict smaller = judge_offer({.own_key_is_smaller = true, .offer_out = true});
  const PairVerdict larger = judge_offer({.own_key_is_smaller = false, .offer_out = true});
  EXPECT_EQ(smaller, PairVerdict::park);
  EXPECT_EQ(larger, PairVerdict::accept);
  EXPECT_EQ(judge_offer({.own_key_is_smaller = true}), PairVerdict::accept);
}

TEST(LinkPairing, AStandingLinkGivesWayOnlyWhenThePeerHasLostIt) {
  PairSituation crossed{.own_key_is_smaller = true, .linked = true, .linked_by_us = true, .silent_for = 20ms};
  EXPECT_EQ(judge_offer(crossed), PairVerdict::refuse);
  crossed.silent_for = 1600ms;
  EXPECT_EQ(judge_offer(crossed), PairVerdict::replace);
  EXPECT_EQ(judge_offer({.own_key_is_smaller = true, .linked = true, .linked_by_us = false}),
            PairVerdict::replace);
  EXPECT_EQ(judge_offer({.own_key_is_smaller = false, .linked = true, .linked_by_us = true}),
            PairVerdict::replace);
}

// Two clocks `offset` apart over a path with these one-way delays, beating once a second.
struct TwoClocks {
  std::int64_t offset_us, there_us, back_us;
  ClockSync a = {}, b = {};
  std::uint64_t now = 1'700'000'000'000'000;
  std::uint64_t at_b(std::uint64_t t) const { return t + static_cast<std::uint64_t>(offset_us); }
  void beat() {
    wire::Heartbeat from_a, from_b;
    a.stamp(from_a, now);
    b.heard(from_a, at_b(now + static_cast<std::uint64_t>(there_us)));
    now += 300'000;
    b.stamp(from_b, at_b(now));
    a.heard(from_b, now + static_cast<std::uint64_t>(back_us));
    now += 700'000;
  }
};

TEST(LinkClock, FindsRoundTripAndOffset) {
  for (std::int64_t offset : {0ll, 5'000'000ll, -86'400'000'000ll}) {
    TwoClocks clocks{.offset_us = offset, .there_us = 40'000, .back_us = 40'000};
    for (int i = 0; i < 5; ++i) clocks.beat();
    EXPECT_EQ(clocks.a.round_trip().count(), 80'000);
    EXPECT_EQ(clocks.a.clock_offset().count(), offset);
    EXPECT_EQ(clocks.b.round_trip().count(), 80'000);
    EXPECT_EQ(clocks.b.clock_offset().count(), -offset);
  }
}

TEST(LinkClock, AQueueOnThePathDoesNotMoveTheOffset) {
  TwoClocks clocks{.offset_us = 1000, .there_us = 40'000, .back_us = 40'000};
  for (int i = 0; i < 4; ++i) clocks.beat();
  clocks.there_us = 400'000;
  for (int i = 0; i < 3; ++i) clocks.beat();
  EXPECT_EQ(clocks.a.round_trip().count(), 80'000);
  EXPECT_EQ(clocks.a.clock_offset().count(), 1000);
}

TEST(LinkClock, NonsenseIsIgnored) {
  ClockSync clock;
  wire::Heartbeat message;
  message.set_sent_us(5);
  EXPECT_TRUE(clock.heard(message, 1'000'000));
  EXPECT_FALSE(clock.heard(message, 1'000'001));
  message.set_echo_us(2'000'000);  // of the future
  message.set_echo_received_us(1);
  clock.heard(message, 1'000'002);
  message.set_sent_us(~0ull);
  message.set_echo_us(1);
  message.set_echo_received_us(~0ull - 1);
  clock.heard(message, ~0ull);
  EXPECT_FALSE(clock.measured());
  EXPECT_EQ(clock.round_trip().count(), 0);
}

TEST(LinkTuning, StripesFollowRateRoundTripAndBuffers) {
  EXPECT_EQ(stripes_for(0, 100ms, 4 << 20), 1u);
  EXPECT_EQ(stripes_for(1'000'000'000, 0ms, 4 << 20), 1u);
  EXPECT_EQ(stripes_for(180'000'000, 86ms, 4 << 20), 1u);
  EXPECT_EQ(stripes_for(500'000'000, 145ms, 4 << 20), 4u);
  EXPECT_EQ(stripes_for(500'000'000, 145ms, 64 << 20), 1u);
  EXPECT_EQ(stripes_for(~0ull, 10s, 4096), kMaxStripes);
}

TEST(WarmUp, WarmingUpIsOneMessageAfterTheOtherAndEnds) {
  WarmUp warm;
  const int one = 0, other = 0;
  EXPECT_FALSE(warm.next(&one));
  warm.begin(&one);
  std::size_t bytes = 0;
  while (auto item = warm.next(&one)) bytes += item->payload_size();
  EXPECT_EQ(bytes, WarmUp::kBytes);
  EXPECT_FALSE(warm.next(&other));
}

TEST(LinkTuning, CongestionControlFollowsThePath) {
  const PathSeen far{.segments = 100'000, .retransmitted = 0, .round_trip = 86ms};
  EXPECT_EQ(choose_congestion("auto", far), "bbr");
  PathSeen near = far;
  near.round_trip = 300us;
  EXPECT_EQ(choose_congestion("auto", near), "");
  EXPECT_EQ(choose_congestion("cubic", far), "cubic");
  EXPECT_EQ(choose_congestion("", far), "");
}

TEST(LinkTuning, LossesAreSeenAndRemembered) {
  PathSeen path{.segments = 100'000, .retransmitted = 0, .round_trip = 86ms};
  EXPECT_FALSE(is_lossy(path));
  path.retransmitted = 90;
  EXPECT_TRUE(is_lossy(path));
  path = {.segments = 10, .retransmitted = 1, .round_trip = 86ms};
  EXPECT_FALSE(is_lossy(path)) << "one says nothing";
  path.lossy = true;
  EXPECT_TRUE(is_lossy(path));
}

TEST(LinkTuning, LossesDoubleTheStripes) {
  PathSeen path{.segments = 100'000, .retransmitted = 0, .round_trip = 145ms};
  EXPECT_EQ(stripes_wanted(4, path, 0, 64 << 20), 4u);
  path.retransmitted = 90;
  EXPECT_EQ(stripes_wanted(4, path, 0, 64 << 20), 8u);
  EXPECT_EQ(stripes_wanted(4, path, 10'000'000'000, 4 << 20), kMaxStripes);
  path.round_trip = 200us;
  EXPECT_EQ(stripes_wanted(1, path, 0, 64 << 20), 1u);
}

TEST(LinkTuning, UnsentBytesFollowTheRate) {
  EXPECT_EQ(unsent_for(0), 256u << 10);
  EXPECT_EQ(unsent_for(1'000'000'000), 2'500'000u);
  EXPECT_EQ(unsent_for(~0ull), 4u << 20);
}

TEST(LinkRate, LimitHoldsOverTimeAndAllowsNoGreatBurst) {
  RateLimit limit;
  limit.set(80'000'000);  // 10 MB/s
  Time now{1h};
  std::int64_t sent = 0;
  const auto take = [&] {
    const std::int64_t count = limit.allowed(now);
    if (count <= 0) return;
    limit.spend(static_cast<std::uint64_t>(count));
    sent += count;
  };
  take();
  EXPECT_LE(sent, 300'000);
  for (int ms = 0; ms < 2000; ++ms) {
    now += 1ms;
    take();
  }
  EXPECT_NEAR(static_cast<double>(sent), 20e6, 400e3);
  now += 1h;
  EXPECT_LE(limit.allowed(now), 300'000);
}

TEST(LinkRate, OverdrawnIsPaidBackFirst) {
  RateLimit limit;
  limit.set(8'000'000);  // 1 MB/s
  Time now{1h};
  limit.allowed(now);
  limit.spend(1'000'000);
  EXPECT_LT(limit.allowed(now), 0);
  const auto pause = limit.pause();
  EXPECT_GT(pause, 900ms);
  EXPECT_LT(pause, 1100ms);
  EXPECT_GT(limit.allowed(now + 1s) + limit.allowed(now + 2s), 0);
  limit.set(0);
  EXPECT_FALSE(limit.limited());
}

TEST(LinkRate, MeterFindsTheBestBusyWindow) {
  RateMeter meter;
  Time now{1h};
  EXPECT_EQ(meter.rate_bits(), 0u);
  meter.sample(now, 0);
  meter.sample(now += 500ms, 5'000'000);
  EXPECT_EQ(meter.rate_bits(), 80'000'000u);
  meter.sample(now += 10s, 5'100'000);  // mostly idle
  EXPECT_EQ(meter.rate_bits(), 80'000'000u);
  meter.sample(now += 10ms, 9'000'000);  // too short to say anything
  EXPECT_EQ(meter.rate_bits(), 80'000'000u);
  std::uint64_t acked = 9'000'000;
  for (std::size_t i = 0; i < RateMeter::kWindows; ++i) meter.sample(now += 200ms, acked += 100'000);
  EXPECT_LT(meter.rate_bits(), 200'000'000u);
  for (std::size_t i = 0; i < RateMeter::kWindows; ++i) meter.sample(now += 200ms, acked += 100'000);
  EXPECT_EQ(meter.rate_bits(), 4'000'000u);
}

TEST(LinkAdmission, BoundsPerAddressAndInTotal) {
  Admission admission({.per_address = 2, .total = 3, .burst = 100, .per_second = 1});
  const Time now{1h};
  using Verdict = Admission::Verdict;
  EXPECT_EQ(admission.enter("a", now), Verdict::enter);
  EXPECT_EQ(admission.enter("a", now), Verdict::enter);
  EXPECT_EQ(admission.enter("a", now), Verdict::turn_away);
  EXPECT_EQ(admission.enter("b", now), Verdict::enter);
  EXPECT_EQ(admission.enter("c", now), Verdict::evict);
  admission.leave("a");
  EXPECT_EQ(admission.total(), 3u);
  admission.leave("nobody");
  EXPECT_EQ(admission.total(), 3u);
}

TEST(LinkAdmission, BoundsTheRateOfOneAddress) {
  Admission admission({.per_address = 100, .total = 100, .burst = 5, .per_second = 10});
  Time now{1h};
  int entered = 0;
  for (int i = 0; i < 20; ++i) {
    if (admission.enter("a", now) != Admission::Verdict::turn_away) ++entered;
    admission.leave("a");
  }
  EXPECT_EQ(entered, 5);
  EXPECT_EQ(admission.enter("b", now), Admission::Verdict::enter);
  EXPECT_EQ(admission.enter("a", now + 100ms), Admission::Verdict::enter);
  EXPECT_EQ(admission.enter("a", now + 110ms), Admission::Verdict::turn_away);
}

TEST(LinkBackoff, GrowsToItsLongestAndStartsAgain) {
  std::mt19937 random(1);
  Backoff backoff;
  std::chrono::milliseconds longest{0};
  EXPECT_LE(backoff.next(random), Backoff::kFirst);
  for (int i = 0; i < 20; ++i) longest = std::max(longest, backoff.next(random));
  EXPECT_LE(longest, Backoff::kLongest);
  EXPECT_GE(longest, Backoff::kLongest / 2);
  backoff.reset();
  EXPECT_LE(backoff.next(random), Backoff::kFirst);
}

TEST(LinkSendQueue, CutForgetsOneBundlesChunks) {
  BundleId one, two;
  one.data.fill(1);
  two.data.fill(2);
  const auto payload = std::make_shared<Bytes>(100);
  SendQueue queue;
  for (int i = 0; i < 3; ++i) {
    queue.push(Outgoing{.head = Bytes(10), .payload = payload, .cargo = Cargo::chunk, .bundle = one});
    queue.push(Outgoing{.head = Bytes(10), .payload = payload, .cargo = Cargo::chunk, .bundle = two});
  }
  queue.push(Outgoing{.head = Bytes(10), .payload = payload, .cargo = Cargo::bulk, .bundle = one});
  EXPECT_EQ(queue.bytes(), 770u);
  EXPECT_EQ(queue.cut(one), 330u);
  EXPECT_EQ(queue.bytes(), 440u);
  int left = 0;
  while (auto item = queue.pop()) {
    ++left;
    EXPECT_TRUE(item->bundle == two || item->cargo == Cargo::bulk);
  }
  EXPECT_EQ(left, 4);
  EXPECT_EQ(queue.bytes(), 0u);
}

}  // namespace
}  // namespace p2pw
