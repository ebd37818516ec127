// The least of what was seen of late, without keeping it all: of this period, and of the one to come, whose least takes over
// when the period ends. So it forgets what is older than two periods.
//
// Pure: time is an argument, never earlier than before.
#pragma once

#include <chrono>

namespace p2pw {

template <class Duration>
class LeastOfLate {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kPeriod{10};

  void add(Duration seen, Time now) {
    if (since_ == Time{}) since_ = now;
    if (now - since_ > kPeriod) {
      least_ = next_;
      next_ = Duration(0);
      since_ = now;
    }
    if (least_ == Duration(0) || seen < least_) least_ = seen;
    if (next_ == Duration(0) || seen < next_) next_ = seen;
  }
  Duration get() const { return least_; }  // 0: nothing yet

 private:
  Duration least_{0}, next_{0};
  Time since_{};
};

}  // namespace p2pw
