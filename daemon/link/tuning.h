// How a link uses TCP: the number of striped connections and their congestion control, as pure functions of what has
// been measured.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace p2pw {

inline constexpr std::uint32_t kDefaultStripes = 4;
inline constexpr std::uint32_t kMaxStripes = 32;

// Connections needed to keep `rate_bits` moving over `round_trip` when the kernel lets each send buffer grow to
// `wmem_max` bytes (the third number of net.ipv4.tcp_wmem). About 0.7 of a buffer holds payload in flight: measured with
// 4 MiB are 287 Mbit/s at 86 ms and 190 Mbit/s at 145 ms. Between 1 and kMaxStripes; 1 when nothing is known.
std::uint32_t stripes_for(std::uint64_t rate_bits, std::chrono::microseconds round_trip, std::uint64_t wmem_max);

struct LossSeen {
  std::uint64_t segments = 0;       // sent on this link's stripes so far, over all its connections
  std::uint64_t retransmitted = 0;  // of these
  std::chrono::microseconds round_trip{0};
};

// The congestion control that a link's stripes should use, by its kernel name; empty = leave what the system has.
// `configured` is a kernel name, or "auto": cubic costs 1 % of a clean path where bbr costs 7 to 10, but collapses at
// 0.1 % loss over a long one; so bbr from the moment when losses show, until the end of the link (`now_bbr`: chosen
// already). Near peers keep the system's.
std::string choose_congestion(const std::string& configured, const LossSeen& loss, bool now_bbr);

}  // namespace p2pw
