#include "daemon/swarm/request_window.h"

#include <algorithm>

namespace p2pw {
namespace {

constexpr std::chrono::milliseconds kListen{20};
constexpr double kMostShrink = 0.25, kMostGrowth = 2;

}  // namespace

void RequestWindow::asked(std::uint64_t bytes) {
  in_flight_ += bytes;
  if (!open()) limited_ = true;
}

void RequestWindow::lost(std::uint64_t bytes) { in_flight_ -= std::min(in_flight_, bytes); }

void RequestWindow::answered(std::uint64_t bytes, Clock::time_point asked, Clock::time_point now) {
  lost(bytes);
  base_.add(now - asked, now);
  if (asked < round_since_) return;  // that says nothing of the window's last change
  if (blocks_++ == 0) heard_since_ = now;
  took_ += now - asked;
  if (now - heard_since_ >= kListen) end_round(now);
}

void RequestWindow::end_round(Clock::time_point now) {
  const double wanted = (base_.get() + kQueue) / std::max(took_ / blocks_, Seconds(1e-6));
  const double factor = std::clamp(wanted, kMostShrink, kMostGrowth);
  // One that was not used up does not grow: nothing says what a larger one would do.
  if (limited_ || factor < 1) {
    window_ = std::clamp(static_cast<std::uint64_t>(factor * static_cast<double>(window_)), kLeast, kMost);
  }
  limited_ = !open();
  took_ = Seconds(0);
  blocks_ = 0;
  round_since_ = now;
}

}  // namespace p2pw
