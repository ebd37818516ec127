#include "daemon/spread/credit.h"

#include <algorithm>

namespace p2pw {

using std::chrono::microseconds;

namespace {
constexpr std::chrono::seconds kBasePeriod{10};
constexpr microseconds kShortestRound{20'000};
}  // namespace

void Credit::sent(std::uint64_t bytes, SteadyTime now) {
  if (in_flight_ == 0) {
    // After a pause nothing is known of the round that was going on.
    round_began_ = now;
    round_acked_ = 0;
    round_took_ = round_chunks_ = 0;
    limited_ = false;
  }
  in_flight_ += bytes;
  largest_ = std::max(largest_, bytes);
  if (in_flight_ >= window_) limited_ = true;
}

void Credit::lost(std::uint64_t bytes) { in_flight_ -= std::min(in_flight_, bytes); }

void Credit::note_base(microseconds took, SteadyTime now) {
  if (base_since_ == SteadyTime{}) base_since_ = now;
  if (now - base_since_ > kBasePeriod) {
    base_ = next_base_.count() > 0 ? next_base_ : took;
    next_base_ = microseconds(0);
    base_since_ = now;
  }
  if (base_.count() == 0 || took < base_) base_ = took;
  if (next_base_.count() == 0 || took < next_base_) next_base_ = took;
}

void Credit::acked(std::uint64_t bytes, SteadyTime now, microseconds took, microseconds round_trip) {
  in_flight_ -= std::min(in_flight_, bytes);
  round_acked_ += bytes;
  round_took_ += took.count();
  ++round_chunks_;
  note_base(took, now);
  if (now - round_began_ >= std::max(base_, kShortestRound)) end_round(now, round_trip);
}

void Credit::end_round(SteadyTime now, microseconds round_trip) {
  double seconds = std::chrono::duration<double>(now - round_began_).count();
  double rate = static_cast<double>(round_acked_) / seconds;
  rate_ = std::max(rate, 0.95 * rate_);
  double took = static_cast<double>(round_took_) / static_cast<double>(round_chunks_);
  double base = static_cast<double>(base_.count());
  if (round_trip.count() > 0) {
    base = std::min(base, static_cast<double>(round_trip.count()) + 1e6 * static_cast<double>(largest_) / rate_);
  }
  double share = std::min(1.0, base / std::max(took, 1.0));
  if (limited_) {
    auto window = static_cast<double>(window_);
    bool growing = share > 0.8 && rate > 1.1 * last_rate_;
    double next = growing ? 2 * window : window * share + 0.25 * window + static_cast<double>(largest_);
    next = std::min(next, 2 * window);
    window_ = std::clamp(static_cast<std::uint64_t>(next), options_.min_bytes, options_.max_bytes);
  }
  last_rate_ = rate;
  round_began_ = now;
  round_acked_ = 0;
  round_took_ = round_chunks_ = 0;
  limited_ = in_flight_ >= window_;
}

}  // namespace p2pw
