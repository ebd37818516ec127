// How many bytes one upstream may have on the way into one region: about one rate x round trip, so that the link is full
// and a stopped process swallows little. Shared by all gateways of the region.
//
// The rate is measured from acknowledgements, in the manner of BBR (Cardwell et al., 2016): the window at most doubles in
// a round trip, and only while the delivery rate still grows; afterwards it follows gain x best rate x least round trip.
// Pure: time comes as an argument.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>

namespace p2pw {

using SteadyTime = std::chrono::steady_clock::time_point;

class Credit {
 public:
  struct Options {
    std::uint64_t initial_bytes = 1u << 20;
    std::uint64_t min_bytes = 64u << 10;
    std::uint64_t max_bytes = 256u << 20;
    double gain = 1.25;
  };
  Credit() : Credit(Options{}) {}
  explicit Credit(Options options) : options_(options), window_(options.initial_bytes), ceiling_(2 * options.initial_bytes) {}

  // `slack`: what must fit beside the product of rate and round trip for chunks to flow at all, e.g. two chunks.
  bool may_send(std::uint64_t slack) const { return in_flight_ < window_ + slack; }
  void sent(std::uint64_t bytes, SteadyTime now);
  void acked(std::uint64_t bytes, SteadyTime now, std::chrono::microseconds round_trip);
  void lost(std::uint64_t bytes);  // the gateway is gone: its bytes no longer count

  std::uint64_t in_flight() const { return in_flight_; }
  std::uint64_t window() const { return window_; }
  double bytes_per_second() const { return best_rate(); }

 private:
  struct Sample {
    SteadyTime at;
    double rate;
  };
  double best_rate() const;
  void end_round(SteadyTime now);

  Options options_;
  std::uint64_t window_;
  std::uint64_t ceiling_;  // of this round, while starting
  std::uint64_t in_flight_ = 0;
  bool starting_ = true;
  std::chrono::microseconds least_round_trip_{0};
  SteadyTime round_began_{};
  std::uint64_t round_acked_ = 0;
  bool limited_ = false;  // the window, not a lack of chunks, held us back during this round
  double plateau_rate_ = 0;
  int plateau_rounds_ = 0;
  std::deque<Sample> rates_;
};

}  // namespace p2pw
