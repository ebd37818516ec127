#include "daemon/spread/gateway_pace.h"

#include <algorithm>

namespace p2pw {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr double kWeight = 0.25;  // of the newest chunk
constexpr double kBehind = 1.3;   // times what the best of the others takes,
constexpr double kGrace = 0.05;   // and seconds on top: a busy machine's scheduler
constexpr double kLess = 0.75;    // of what the best of the others takes in
constexpr int kSamples = 4;
constexpr std::chrono::seconds kOfLate{10};

}  // namespace

void GatewayPace::sent(const NodeKey& gateway, std::uint64_t bytes, SteadyTime now) {
  Entry& entry = entries_[gateway];
  if (entry.sent.empty() && now - entry.heard > kOfLate) entry.seconds = entry.acked = 0;
  entry.sent.insert(now);
  entry.bytes += bytes;
}

void GatewayPace::lost(const NodeKey& gateway, std::uint64_t bytes, SteadyTime sent) {
  auto it = entries_.find(gateway);
  if (it == entries_.end()) return;
  Entry& entry = it->second;
  auto chunk = entry.sent.find(sent);
  if (chunk != entry.sent.end()) entry.sent.erase(chunk);
  entry.bytes -= std::min(entry.bytes, bytes);
}

void GatewayPace::acked(const NodeKey& gateway, std::uint64_t bytes, SteadyTime sent, SteadyTime now) {
  auto it = entries_.find(gateway);
  if (it == entries_.end()) return;
  Entry& entry = it->second;
  const double seconds = Seconds(now - sent).count();
  const double weight = entry.seconds > 0 ? kWeight : 1;
  entry.seconds += weight * (seconds - entry.seconds);
  entry.usual_bytes += weight * (static_cast<double>(entry.bytes) - entry.usual_bytes);
  entry.heard = now;
  ++entry.acked;
  lost(gateway, bytes, sent);
}

double GatewayPace::takes(const Entry& entry, SteadyTime now) {
  const double oldest = entry.sent.empty() ? 0 : Seconds(now - *entry.sent.begin()).count();
  return std::max(entry.seconds, oldest);
}

double GatewayPace::rate_of(const Entry& entry, SteadyTime now) {
  return entry.seconds == 0 ? 0 : entry.usual_bytes / std::max(takes(entry, now), 1e-6);
}

GatewayPace::Best GatewayPace::best_other(const NodeKey& gateway, SteadyTime now) const {
  Best best;
  for (auto& [key, entry] : entries_) {
    if (key == gateway || entry.acked < kSamples || now - entry.heard > kOfLate) continue;
    const double seconds = takes(entry, now);
    if (best.seconds == 0 || seconds < best.seconds) best.seconds = seconds;
    best.rate = std::max(best.rate, rate_of(entry, now));
  }
  return best;
}

bool GatewayPace::behind(const NodeKey& gateway, SteadyTime now) const {
  auto it = entries_.find(gateway);
  const Best best = best_other(gateway, now);
  if (it == entries_.end() || it->second.acked < kSamples || best.seconds == 0) return false;
  return takes(it->second, now) > kBehind * best.seconds + kGrace &&
         rate_of(it->second, now) < kLess * best.rate;
}

bool GatewayPace::rests(const NodeKey& gateway, SteadyTime now) const {
  auto it = entries_.find(gateway);
  return it != entries_.end() && it->second.rests_until > now;
}

double GatewayPace::rate(const NodeKey& gateway, SteadyTime now) const {
  auto it = entries_.find(gateway);
  return it == entries_.end() ? 0 : rate_of(it->second, now);
}

std::uint64_t GatewayPace::under_way(const NodeKey& gateway) const {
  auto it = entries_.find(gateway);
  return it == entries_.end() ? 0 : it->second.bytes;
}

}  // namespace p2pw
