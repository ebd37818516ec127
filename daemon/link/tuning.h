// How a link uses TCP: the number of striped connections and their congestion control, as pure functions of
// what has been measured.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace p2pw {

inline constexpr std::uint32_t kDefaultStripes = 4;
inline constexpr std::uint32_t kMaxStripes = 32;

// Connections needed to keep `rate_bits` moving over `round_trip` when the kernel lets each send buffer grow
// to `wmem_max` bytes (the third number of net.ipv4.tcp_wmem). About 0.7 of a buffer holds payload in flight:
// measured with 4 MiB are 287 Mbit/s at 86 ms and 190 Mbit/s at 145 ms. Between 1 and kMaxStripes; 1 when
// nothing is known.
std::uint32_t stripes_for(std::uint64_t rate_bits, std::chrono::microseconds round_trip,
                          std::uint64_t wmem_max);

// What the kernel should hold of a stripe without having sent it: 20 ms of its rate. Less makes the stripe
// wait for this process, more gives it chunks that another stripe could send earlier, and that can no longer
// be cut.
std::uint32_t unsent_for(std::uint64_t stripe_rate_bits);

// What has been seen of a link's path.
struct PathSeen {
  std::uint64_t segments = 0;       // sent on the stripes that stand
  std::uint64_t retransmitted = 0;  // of these
  std::chrono::microseconds round_trip{0};
  bool lossy = false;         // an earlier answer was "losses": it holds until the link ends
};

bool is_lossy(const PathSeen& path);

// The stripes that a link should have: `configured`, twice as many where losses show (measured at 0.1 % and
// 145 ms: 8 are 5 % faster than 4), more where the kernel's buffers would hold fewer back.
std::uint32_t stripes_wanted(std::uint32_t configured, const PathSeen& path, std::uint64_t rate_bits,
                             std::uint64_t wmem_max);

// The congestion control that a link's stripes should use, by its kernel name; empty = leave what the system
// has. `configured` is a kernel name, or "auto":
// - Near peers keep the system's.
// - All others bbr. cubic collapses at 0.1 % of losses over a long path, starts again from ten segments after every pause
//   where the kernel's tcp_slow_start_after_idle says so, and comes up slowly where a busy machine's jitter looks like a
//   queue to it: 256 MiB to two regions take 13.0 s with bbr, 15.3 to 17.5 s with cubic (simulations/lab wan-2x3, three runs).
std::string choose_congestion(const std::string& configured, const PathSeen& path);

}  // namespace p2pw
