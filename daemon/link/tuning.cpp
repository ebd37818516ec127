#include "daemon/link/tuning.h"

#include <algorithm>

namespace p2pw {
namespace {

constexpr double kUsableBuffer = 0.7;
constexpr std::chrono::milliseconds kNear{5};
// One lost segment says nothing; a share of 1e-5 already costs cubic more than bbr ever does at 100 ms and
// 200 Mbit/s.
constexpr std::uint64_t kMinRetransmitted = 3;
constexpr double kLossShare = 1e-5;

}  // namespace

std::uint32_t stripes_for(std::uint64_t rate_bits, std::chrono::microseconds round_trip,
                          std::uint64_t wmem_max) {
  if (rate_bits == 0 || round_trip.count() <= 0 || wmem_max == 0) return 1;
  const double in_flight = static_cast<double>(rate_bits) / 8 * static_cast<double>(round_trip.count()) / 1e6;
  const double needed = in_flight / (kUsableBuffer * static_cast<double>(wmem_max));
  if (needed >= kMaxStripes) return kMaxStripes;
  return std::max(1u,
                  static_cast<std::uint32_t>(needed) + (needed > static_cast<std::uint32_t>(needed) ? 1 : 0));
}

std::uint32_t unsent_for(std::uint64_t stripe_rate_bits) {
  const std::uint64_t bytes = stripe_rate_bits / 8 / 50;
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(bytes, 256u << 10, 4u << 20));
}

bool is_lossy(const PathSeen& path) {
  if (path.lossy) return true;
  if (path.segments == 0 || path.retransmitted < kMinRetransmitted) return false;
  return static_cast<double>(path.retransmitted) >= kLossShare * static_cast<double>(path.segments);
}

std::uint32_t stripes_wanted(std::uint32_t configured, const PathSeen& path, std::uint64_t rate_bits,
                             std::uint64_t wmem_max) {
  const bool doubled = path.round_trip >= kNear && is_lossy(path);
  const std::uint32_t least = std::min(doubled ? 2 * configured : configured, kMaxStripes);
  // A rate that is limited by buffers never grows by itself: room for half as much again.
  return std::max(least, stripes_for(rate_bits + rate_bits / 2, path.round_trip, wmem_max));
}

std::string choose_congestion(const std::string& configured, const PathSeen& path) {
  if (configured != "auto") return configured;
  if (path.round_trip < kNear) return "";
  return "bbr";
}

}  // namespace p2pw
