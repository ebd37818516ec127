// A token bucket for chunk payload, shared by all links of a class. Pure: times are handed in.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace p2pw {

class RateLimit {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // How much may leave at once after a pause.
  static constexpr std::chrono::milliseconds kBurst{20};
  static constexpr std::int64_t kMinBurstBytes = 64 << 10;

  // Bits a second; 0 = no limit.
  void set(std::uint64_t rate_bits) {
    rate_bits_ = rate_bits;
    level_ = std::min(level_, burst());
  }
  std::uint64_t rate_bits() const { return rate_bits_; }
  bool limited() const { return rate_bits_ != 0; }

  // Bytes that may be written now; may be exceeded by part of a batch, which is then paid back first.
  std::int64_t allowed(Time now) {
    refill(now);
    return level_;
  }
  void spend(std::uint64_t bytes) {
    if (limited()) level_ -= static_cast<std::int64_t>(bytes);
  }
  // Until about half a burst may leave again.
  std::chrono::nanoseconds pause() const {
    if (!limited()) return std::chrono::nanoseconds(0);
    const double missing = static_cast<double>(burst() / 2 - level_);
    return std::chrono::nanoseconds(std::max<std::int64_t>(
        0, static_cast<std::int64_t>(missing * 8e9 / static_cast<double>(rate_bits_)) + 1));
  }

 private:
  std::int64_t burst() const {
    const double bytes = static_cast<double>(rate_bits_) / 8 * std::chrono::duration<double>(kBurst).count();
    return std::max(kMinBurstBytes, static_cast<std::int64_t>(bytes));
  }
  void refill(Time now) {
    if (!started_) {
      started_ = true;
      level_ = burst();
    } else if (now > last_) {
      const double seconds = std::min(1.0, std::chrono::duration<double>(now - last_).count());
      carry_ += seconds * static_cast<double>(rate_bits_) / 8;
      const auto whole = static_cast<std::int64_t>(carry_);
      carry_ -= static_cast<double>(whole);
      level_ = std::min(burst(), level_ + whole);
    }
    last_ = now;
  }

  std::uint64_t rate_bits_ = 0;
  std::int64_t level_ = 0;
  double carry_ = 0;
  bool started_ = false;
  Time last_{};
};

}  // namespace p2pw
