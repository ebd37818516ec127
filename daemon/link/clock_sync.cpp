#include "daemon/link/clock_sync.h"

#include <algorithm>
#include <cstdlib>

#include "protocol/links.pb.h"

namespace p2pw {
namespace {

// Differences of clocks that may be wrong by years, without overflow.
std::int64_t difference(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::int64_t>(a - b);
}

// A quarter of the way to the new value; a jump (a clock was set, a path changed) is taken at once.
std::int64_t smooth(std::int64_t old_value, std::int64_t new_value, std::int64_t jump) {
  const std::int64_t step = new_value - old_value;
  return std::abs(step) > jump ? new_value : old_value + step / 4;
}

}  // namespace

void ClockSync::stamp(wire::Heartbeat& heartbeat, std::uint64_t now_us) const {
  heartbeat.set_sent_us(now_us);
  heartbeat.set_echo_us(last_sent_us_);
  heartbeat.set_echo_received_us(last_received_us_);
}

bool ClockSync::heard(const wire::Heartbeat& heartbeat, std::uint64_t now_us) {
  const bool first = !heard_any();
  last_sent_us_ = heartbeat.sent_us();
  last_received_us_ = now_us;
  if (heartbeat.echo_us() == 0) return first;

  const std::int64_t there = difference(heartbeat.echo_received_us(), heartbeat.echo_us());
  const std::int64_t back = difference(heartbeat.sent_us(), now_us);  // negative of the way back, plus offset
  const std::int64_t away = difference(now_us, heartbeat.echo_us());
  const std::int64_t held = difference(heartbeat.sent_us(), heartbeat.echo_received_us());
  const std::int64_t round_trip = away - held;
  if (held < 0 || away < 0 || round_trip < 0 || round_trip > kMaxRoundTripUs)
    return first;  // a clock was set
  add({round_trip, there / 2 + back / 2});
  return first;
}

void ClockSync::add(Sample sample) {
  window_[samples_ % kWindow] = sample;
  ++samples_;
  const std::size_t held = static_cast<std::size_t>(std::min<std::uint64_t>(samples_, kWindow));
  const Sample best =
      *std::min_element(window_.begin(), window_.begin() + static_cast<std::ptrdiff_t>(held),
                        [](const Sample& a, const Sample& b) { return a.round_trip_us < b.round_trip_us; });
  if (samples_ == 1) {
    round_trip_ = Micros(best.round_trip_us);
    clock_offset_ = Micros(best.offset_us);
    return;
  }
  round_trip_ = Micros(smooth(round_trip_.count(), best.round_trip_us, best.round_trip_us / 2));
  clock_offset_ = Micros(smooth(clock_offset_.count(), best.offset_us, 100'000));
}

}  // namespace p2pw
