// Round trip and clock offset from heartbeats, as in NTP: each one echoes the last one heard, so every
// arrival gives a sample. Samples that waited in a queue have a longer round trip and a worse offset: the
// shortest of the last few counts for both, smoothed. Pure: times are handed in.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>

namespace p2pw {

namespace wire {
class Heartbeat;
}

class ClockSync {
 public:
  using Micros = std::chrono::microseconds;

  // Fills the times of the heartbeat to send at wall clock `now_us`.
  void stamp(wire::Heartbeat& heartbeat, std::uint64_t now_us) const;
  // A heartbeat came at wall clock `now_us`. True when it is the first one heard.
  bool heard(const wire::Heartbeat& heartbeat, std::uint64_t now_us);

  bool heard_any() const { return last_received_us_ != 0; }
  bool measured() const { return samples_ > 0; }
  Micros round_trip() const { return round_trip_; }      // 0 until measured
  Micros clock_offset() const { return clock_offset_; }  // peer's wall clock minus ours

 private:
  static constexpr std::size_t kWindow = 8;
  static constexpr std::int64_t kMaxRoundTripUs = 60'000'000;
  struct Sample {
    std::int64_t round_trip_us = 0;
    std::int64_t offset_us = 0;
  };
  void add(Sample sample);

  std::uint64_t last_sent_us_ = 0;      // peer's clock
  std::uint64_t last_received_us_ = 0;  // ours
  std::array<Sample, kWindow> window_{};
  std::uint64_t samples_ = 0;
  Micros round_trip_{0};
  Micros clock_offset_{0};
};

}  // namespace p2pw
