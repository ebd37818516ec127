#include "daemon/spread/credit.h"

#include <algorithm>

namespace p2pw {

using std::chrono::microseconds;

void Credit::sent(std::uint64_t bytes, SteadyTime now) {
  if (in_flight_ == 0 && round_acked_ == 0) round_began_ = now;
  in_flight_ += bytes;
  if (in_flight_ >= window_) limited_ = true;
}

void Credit::lost(std::uint64_t bytes) { in_flight_ -= std::min(in_flight_, bytes); }

void Credit::acked(std::uint64_t bytes, SteadyTime now, microseconds round_trip) {
  in_flight_ -= std::min(in_flight_, bytes);
  round_acked_ += bytes;
  if (round_trip.count() > 0 && (least_round_trip_.count() == 0 || round_trip < least_round_trip_)) {
    least_round_trip_ = round_trip;
  }
  if (starting_ && limited_) window_ = std::min({options_.max_bytes, ceiling_, window_ + bytes});
  // Rounds shorter than 50 ms would measure the grain of chunks rather than the rate.
  auto round = std::max(least_round_trip_, microseconds(50'000));
  if (now - round_began_ >= round) end_round(now);
}

void Credit::end_round(SteadyTime now) {
  double seconds = std::chrono::duration<double>(now - round_began_).count();
  double rate = static_cast<double>(round_acked_) / seconds;
  if (limited_ || rate > best_rate()) rates_.push_back({now, rate});
  while (!rates_.empty() && now - rates_.front().at > std::chrono::seconds(10) && rates_.size() > 1) {
    rates_.pop_front();
  }
  if (starting_ && limited_) {
    if (rate > plateau_rate_ * 1.25) {
      plateau_rate_ = rate;
      plateau_rounds_ = 0;
      ceiling_ = 2 * window_;
    } else {
      ceiling_ = window_;
      starting_ = ++plateau_rounds_ < 2;
    }
  }
  if (!starting_) {
    double product = best_rate() * std::chrono::duration<double>(least_round_trip_).count();
    auto target = static_cast<std::uint64_t>(options_.gain * product);
    window_ = std::clamp(target, options_.min_bytes, options_.max_bytes);
  }
  round_began_ = now;
  round_acked_ = 0;
  limited_ = in_flight_ >= window_;
}

double Credit::best_rate() const {
  double best = 0;
  for (const Sample& s : rates_) best = std::max(best, s.rate);
  return best;
}

}  // namespace p2pw
