// The rate at which chunks are delivered, from the growing count of acknowledged bytes. Only stretches in
// which there was always something to send count: an idle link says nothing about the path. Pure: times are
// handed in.
#pragma once

#include <chrono>
#include <cstdint>

namespace p2pw {

class RateMeter {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds kWindow{200};

  // `busy`: bytes are waiting to be written at this moment.
  void sample(Time now, std::uint64_t acked, bool busy) {
    if (!busy || !running_ || acked < acked_) {
      running_ = busy;
      since_ = now;
      acked_ = acked;
      return;
    }
    const auto passed = now - since_;
    if (passed < kWindow) return;
    const double rate =
        static_cast<double>(acked - acked_) * 8 / std::chrono::duration<double>(passed).count();
    rate_bits_ = rate_bits_ == 0 ? rate : rate_bits_ + (rate - rate_bits_) * 0.3;
    since_ = now;
    acked_ = acked;
  }
  bool due(Time now) const { return !running_ || now - since_ >= kWindow; }
  std::uint64_t rate_bits() const { return static_cast<std::uint64_t>(rate_bits_); }  // 0 = not known

 private:
  bool running_ = false;
  Time since_{};
  std::uint64_t acked_ = 0;
  double rate_bits_ = 0;
};

}  // namespace p2pw
