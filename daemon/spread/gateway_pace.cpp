#include "daemon/spread/gateway_pace.h"

#include <algorithm>

namespace p2pw {
namespace {

constexpr int kStrikes = 2;
constexpr double kBehind = 0.5;
constexpr double kHeldUp = 0.6;  // of the region's best rate
constexpr double kGrows = 1.25;  // from period to period
constexpr int kRoundTrips = 6;   // at least in a period

}  // namespace

void GatewayPace::acked(const NodeKey& gateway, std::uint64_t bytes) { entries_[gateway].acked += bytes; }

bool GatewayPace::slow(const NodeKey& gateway, SteadyTime now) const {
  auto it = entries_.find(gateway);
  return it != entries_.end() && it->second.slow_until > now;
}

std::vector<NodeKey> GatewayPace::look(const std::set<NodeKey>& busy, const std::function<bool()>& idle, std::uint64_t chunk,
                                       std::chrono::microseconds round_trip, SteadyTime now) {
  if (busy.empty()) {
    running_ = false;
    best_rate_ = 0;
    return {};
  }
  if (!running_) {
    running_ = true;
    since_ = now;
    for (auto& [key, entry] : entries_) entry = {.slow_until = entry.slow_until};
  }
  for (const NodeKey& key : busy) entries_.try_emplace(key);
  for (auto& [key, entry] : entries_) entry.busy_throughout = entry.busy_throughout && busy.contains(key);
  if (now - since_ < std::max<SteadyTime::duration>(kPeriod, kRoundTrips * round_trip)) return {};
  auto found = judge(idle, chunk, now);
  since_ = now;
  for (auto& [key, entry] : entries_) {
    entry.before = entry.acked;
    entry.acked = 0;
    entry.busy_throughout = true;
  }
  return found;
}

std::vector<NodeKey> GatewayPace::judge(const std::function<bool()>& idle, std::uint64_t chunk, SteadyTime now) {
  std::uint64_t best = 0, all = 0;
  for (auto& [key, entry] : entries_) {
    best = std::max(best, entry.acked);
    all += entry.acked;
  }
  const double rate = static_cast<double>(all) / std::chrono::duration<double>(now - since_).count();
  const bool held_up = rate < kHeldUp * best_rate_ && idle();
  best_rate_ = std::max(best_rate_, rate);
  std::vector<NodeKey> found;
  for (auto& [key, entry] : entries_) {
    if (!entry.busy_throughout || entry.slow_until > now) continue;
    const auto acked = static_cast<double>(entry.acked);
    const bool grows = acked > kGrows * static_cast<double>(entry.before);
    const bool behind = best >= 2 * chunk && acked < kBehind * static_cast<double>(best) && !grows;
    entry.strikes = held_up ? kStrikes : behind ? entry.strikes + 1 : 0;
    if (entry.strikes < kStrikes) continue;
    entry.slow_until = now + kSlowFor;
    found.push_back(key);
  }
  return found;
}

}  // namespace p2pw
