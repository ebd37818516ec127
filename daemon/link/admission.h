// How many connections may be there that have not proven themselves, and how fast they may come: in total and
// from one address. Pure: times are handed in.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <string>

namespace p2pw {

struct AdmissionLimits {
  std::size_t per_address = 64;
  std::size_t total = 512;
  double burst = 512;      // connections from one address at once ...
  double per_second = 50;  // ... and on the long run
};

class Admission {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::size_t kRemembered = 4096;  // addresses

  enum class Verdict {
    enter,      // leave() must follow, when it is proven or gone
    evict,      // the same, but first the oldest unproven one has to go
    turn_away,  // close it at once
  };

  explicit Admission(AdmissionLimits limits) : limits_(limits) {}

  Verdict enter(const std::string& address, Time now) {
    if (addresses_.size() >= kRemembered) forget_quiet(now);
    Address& from =
        addresses_.try_emplace(address, Address{.tokens = limits_.burst, .last = now}).first->second;
    from.tokens = level(from, now);
    from.last = now;
    if (from.open >= limits_.per_address || from.tokens < 1) return Verdict::turn_away;
    from.tokens -= 1;
    ++from.open;
    ++total_;
    return total_ > limits_.total ? Verdict::evict : Verdict::enter;
  }
  void leave(const std::string& address) {
    auto it = addresses_.find(address);
    if (it == addresses_.end() || it->second.open == 0) return;
    --it->second.open;
    --total_;
  }
  std::size_t total() const { return total_; }

 private:
  struct Address {
    std::size_t open = 0;
    double tokens = 0;
    Time last{};
  };
  double level(const Address& from, Time now) const {
    const double passed = std::chrono::duration<double>(now - from.last).count();
    return std::min(limits_.burst, from.tokens + std::max(0.0, passed) * limits_.per_second);
  }
  void forget_quiet(Time now) {
    std::erase_if(addresses_, [&](const auto& entry) {
      return entry.second.open == 0 && level(entry.second, now) >= limits_.burst;
    });
    // A flood from very many addresses: the total bound is what protects then.
    if (addresses_.size() >= kRemembered) {
      std::erase_if(addresses_, [](const auto& entry) { return entry.second.open == 0; });
    }
  }

  AdmissionLimits limits_;
  std::size_t total_ = 0;
  std::map<std::string, Address> addresses_;
};

}  // namespace p2pw
