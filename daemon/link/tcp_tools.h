// Linux socket options and TCP_INFO by file descriptor. Apart from the rest because <linux/tcp.h> and the C
// library's header of the same content cannot be included together.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace p2pw {

struct TcpMeasured {
  std::chrono::microseconds round_trip{0};
  std::chrono::microseconds min_round_trip{0};
  std::uint64_t segments_sent = 0;
  std::uint64_t retransmitted = 0;
  std::uint64_t bytes_acked = 0;
  std::uint64_t bytes_retransmitted = 0;
  std::uint64_t unsent = 0;              // bytes in the kernel that have not left yet
  std::uint64_t delivery_rate_bits = 0;  // the kernel's latest estimate
};

TcpMeasured measure_tcp(int socket);  // zeros when the kernel does not say

bool set_congestion(int socket, const char* name);  // false: not there or not permitted
std::string congestion_of(int socket);
void set_no_delay(int socket);
// A connection whose peer does not acknowledge for 15 s breaks, an idle one is probed after 30 s.
void set_dead_peer_timeouts(int socket);
void set_unsent_low_water(int socket, std::uint32_t bytes);

// The third number of net.ipv4.tcp_wmem, 4 MiB when it cannot be read.
std::uint64_t tcp_wmem_max();

}  // namespace p2pw
