// How many bytes one upstream may have on the way into one region: about one rate x round trip, so that the link is full
// and a stopped process swallows little. Shared by all gateways of the region.
//
// The window follows the rate of acknowledgements and the least time that a chunk takes (the round trip and its own
// length at the measured rate, or less where less was seen of late), in the manner of BBR (Cardwell, Cheng, Gunn, Yeganeh
// and Jacobson, 2016):
//   window = 1.5 x rate x base.
// One part is on the way; half as much stands ready where a stripe pauses or a scheduler holds somebody up, so that the
// link never runs dry, and TCP, not this, shares the link. While chunks take no longer than `base` this grows in each
// round, by nearly a factor of two; where they queue, the rate no longer grows and neither does the window. It shrinks slowly.
// Pure: time is an argument.
#pragma once

#include <chrono>
#include <cstdint>

#include "daemon/client/least_of_late.h"

namespace p2pw {

using SteadyTime = std::chrono::steady_clock::time_point;

class Credit {
 public:
  struct Options {
    std::uint64_t initial_bytes = 8u << 20;
    std::uint64_t min_bytes = 64u << 10;
    std::uint64_t max_bytes = 256u << 20;
  };
  Credit() : Credit(Options{}) {}
  explicit Credit(Options options) : options_(options), window_(options.initial_bytes) {}

  // `slack`: what must fit beside the window for chunks to flow at all, e.g. a chunk.
  bool may_send(std::uint64_t slack) const { return in_flight_ < window_ + slack; }
  void sent(std::uint64_t bytes, SteadyTime now);
  // `took`: from sent() to now, for this chunk. `round_trip`: the link's, without chunks; 0 = unknown.
  void acked(std::uint64_t bytes, SteadyTime now, std::chrono::microseconds took, std::chrono::microseconds round_trip);
  void lost(std::uint64_t bytes);  // the gateway is gone: its bytes no longer count
  // Nobody over there answers: until somebody does, one chunk at a time is enough to find out.
  void choke();

  std::uint64_t in_flight() const { return in_flight_; }
  std::uint64_t window() const { return window_; }
  double bytes_per_second() const { return rate_; }

 private:
  void end_round(SteadyTime now, std::chrono::microseconds round_trip);

  Options options_;
  std::uint64_t window_;
  std::uint64_t choked_ = 0;  // the window when it was choked
  std::uint64_t in_flight_ = 0;
  double rate_ = 0;       // of acknowledgements, the best of late
  bool limited_ = false;  // the window, not a lack of chunks, held us back during this round

  LeastOfLate<std::chrono::microseconds> base_;  // that a chunk takes

  struct Round {
    SteadyTime began{};
    std::uint64_t acked = 0;
    std::chrono::microseconds took{0};  // its chunks, together
    std::uint32_t chunks = 0;
  };
  Round round_;
  std::uint64_t last_acked_ = 0;  // in the round before
  double last_seconds_ = 0;
  std::uint64_t largest_ = 0;  // chunk
};

}  // namespace p2pw
