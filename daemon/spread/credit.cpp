#include "daemon/spread/credit.h"

#include <algorithm>
#include <utility>

namespace p2pw {

using std::chrono::microseconds;

namespace {
constexpr microseconds kShortestRound{20'000};
constexpr double kGain = 1.5;
constexpr double kFastGain = 2.5;  // where nothing queues: who relays alone what three did before must catch up soon
constexpr double kNoQueue = 1.25;  // times the base
constexpr double kSlowestShrink = 0.8;
constexpr double kForget = 0.9;   // of the best rate, in each round
}  // namespace

void Credit::sent(std::uint64_t bytes, SteadyTime now) {
  if (in_flight_ == 0) {
    // After a pause nothing is known of the round that was going on.
    round_ = {.began = now};
    last_acked_ = 0;
    last_seconds_ = 0;
    limited_ = false;
  }
  in_flight_ += bytes;
  largest_ = std::max(largest_, bytes);
  if (in_flight_ >= window_) limited_ = true;
}

void Credit::lost(std::uint64_t bytes) { in_flight_ -= std::min(in_flight_, bytes); }

void Credit::choke() {
  if (choked_ > 0) return;
  choked_ = window_;
  window_ = 0;
}

void Credit::acked(std::uint64_t bytes, SteadyTime now, microseconds took, microseconds round_trip) {
  in_flight_ -= std::min(in_flight_, bytes);
  if (choked_ > 0) window_ = std::max(std::exchange(choked_, 0) / 2, options_.min_bytes);
  round_.acked += bytes;
  round_.took += took;
  ++round_.chunks;
  base_.add(took, now);
  if (now - round_.began >= std::max(base_.get(), kShortestRound)) end_round(now, round_trip);
}

void Credit::end_round(SteadyTime now, microseconds round_trip) {
  double seconds = std::chrono::duration<double>(now - round_.began).count();
  // Over two rounds: what a busy machine acknowledges in one go after a pause is not the path's rate.
  double rate = static_cast<double>(last_acked_ + round_.acked) / (last_seconds_ + seconds);
  last_acked_ = round_.acked;
  last_seconds_ = seconds;
  rate_ = std::max(rate, kForget * rate_);
  auto base = static_cast<double>(base_.get().count());
  if (round_trip.count() > 0) {
    base = std::min(base, static_cast<double>(round_trip.count()) + 1e6 * static_cast<double>(largest_) / rate_);
  }
  double before = static_cast<double>(window_);
  const bool queues = static_cast<double>(round_.took.count()) > kNoQueue * base * static_cast<double>(round_.chunks);
  const double gain = limited_ && !queues ? kFastGain : kGain;
  double next = std::clamp(gain * rate_ * base / 1e6, kSlowestShrink * before, gain * before);
  // One that was not needed does not grow; it shrinks, for whoever stops could swallow it.
  if (limited_ || next < before) {
    window_ = std::clamp(static_cast<std::uint64_t>(next), options_.min_bytes, options_.max_bytes);
  }
  round_ = {.began = now};
  limited_ = in_flight_ >= window_;
}

}  // namespace p2pw
