// The rate that a link reaches, from the growing count of acknowledged bytes: the best of the last busy
// windows, because a window in which there was too little to send says nothing about the path. Pure: times
// are handed in.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

namespace p2pw {

class RateMeter {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds kWindow{200};
  static constexpr std::size_t kWindows = 16;  // about three seconds of a long transfer

  bool due(Time now) const { return !running_ || now - since_ >= kWindow; }

  void sample(Time now, std::uint64_t acked) {
    if (running_ && acked > acked_ && now - since_ < kWindow) return;
    if (running_ && acked > acked_) {
      const double seconds = std::chrono::duration<double>(now - since_).count();
      rates_[count_++ % kWindows] = static_cast<double>(acked - acked_) * 8 / seconds;
    }
    running_ = true;
    since_ = now;
    acked_ = acked;
  }

  // 0 = not known.
  std::uint64_t rate_bits() const {
    return static_cast<std::uint64_t>(*std::max_element(rates_.begin(), rates_.end()));
  }

 private:
  bool running_ = false;
  Time since_{};
  std::uint64_t acked_ = 0;
  std::array<double, kWindows> rates_{};
  std::size_t count_ = 0;
};

}  // namespace p2pw
