// Virtual time: a queue of events, run in order of time and then of scheduling, so that the same calls give the same run.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <queue>
#include <tuple>
#include <vector>

#include "protocol/membership.h"

namespace p2pw::fleet {

inline SteadyTime at_seconds(double seconds) {
  return SteadyTime(std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9)));
}
inline double to_seconds(SteadyTime time) { return std::chrono::duration<double>(time.time_since_epoch()).count(); }

class Clock {
 public:
  SteadyTime now() const { return now_; }
  double seconds() const { return to_seconds(now_); }
  void at(SteadyTime when, std::function<void()> what) {
    queue_.push({std::max(when, now_), next_++, std::move(what)});
  }
  void after(double seconds, std::function<void()> what) { at(at_seconds(this->seconds() + seconds), std::move(what)); }
  bool empty() const { return queue_.empty(); }
  std::uint64_t events() const { return next_; }
  // Runs the earliest event. The queue must not be empty.
  void step() {
    auto what = std::move(const_cast<Event&>(queue_.top()).what);
    now_ = queue_.top().when;
    queue_.pop();
    what();
  }

 private:
  struct Event {
    SteadyTime when;
    std::uint64_t order;
    std::function<void()> what;
    bool operator>(const Event& o) const { return std::tie(when, order) > std::tie(o.when, o.order); }
  };
  SteadyTime now_{};
  std::uint64_t next_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> queue_;
};

}  // namespace p2pw::fleet
