// How many bytes this node has asked one neighbour for, over all torrents that they share. libtorrent asks each
// connection for a second's worth: where a cable is slow, a second of blocks then stands in its queue, and with it stand
// the neighbours' requests and acknowledgements, so that what only the slow node has does not get out either. As in
// receiver-driven transports (Homa: Montazeri, Li, Alizadeh and Ousterhout, 2018) the receiver decides what is on its
// way to it: as much as makes a block take kQueue longer than the fastest one of late, which keeps the slowest part of
// the path busy and little more.
//
//   window <- window x (base + kQueue) / took, once in each round; at most twice as much, at least a quarter
//
// A round lasts until what was asked after its beginning has been answered for a moment. Pure: time is an argument, never
// earlier than before.
#pragma once

#include <chrono>
#include <cstdint>

#include "daemon/client/least_of_late.h"

namespace p2pw {

class RequestWindow {
 public:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;
  static constexpr Seconds kQueue{0.05};  // more than a busy machine's scheduler takes to let a process run
  static constexpr std::uint64_t kFirst = 512u << 10;
  static constexpr std::uint64_t kLeast = 64u << 10;
  static constexpr std::uint64_t kMost = 64u << 20;

  bool open() const { return in_flight_ < window_; }
  void asked(std::uint64_t bytes);
  void answered(std::uint64_t bytes, Clock::time_point asked, Clock::time_point now);
  void lost(std::uint64_t bytes);  // will not be answered

  std::uint64_t in_flight() const { return in_flight_; }
  std::uint64_t bytes() const { return window_; }

 private:
  void end_round(Clock::time_point now);

  std::uint64_t window_ = kFirst;
  std::uint64_t in_flight_ = 0;
  bool limited_ = false;  // the window held us back during this round

  LeastOfLate<Seconds> base_;  // that a block takes
  Clock::time_point round_since_{}, heard_since_{};
  Seconds took_{0};  // by the blocks that were asked for in this round, together
  std::uint32_t blocks_ = 0;
};

}  // namespace p2pw
