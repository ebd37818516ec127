#include "daemon/link/tcp_tools.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <fstream>

namespace p2pw {

TcpMeasured measure_tcp(int socket) {
  tcp_info info{};
  socklen_t length = sizeof info;
  TcpMeasured measured;
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return measured;
  measured.round_trip = std::chrono::microseconds(info.tcpi_rtt);
  measured.retransmitted = info.tcpi_total_retrans;
  if (length >= offsetof(tcp_info, tcpi_bytes_retrans) + sizeof info.tcpi_bytes_retrans) {
    measured.min_round_trip = std::chrono::microseconds(info.tcpi_min_rtt == ~0u ? 0 : info.tcpi_min_rtt);
    measured.segments_sent = info.tcpi_data_segs_out;
    measured.bytes_acked = info.tcpi_bytes_acked;
    measured.bytes_retransmitted = info.tcpi_bytes_retrans;
    measured.unsent = info.tcpi_notsent_bytes;
    measured.delivery_rate_bits = info.tcpi_delivery_rate * 8;
  }
  return measured;
}

bool set_congestion(int socket, const char* name) {
  return setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name, static_cast<socklen_t>(std::strlen(name))) ==
         0;
}

std::string congestion_of(int socket) {
  char name[32] = {};
  socklen_t length = sizeof name - 1;
  if (getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name, &length) != 0) return {};
  return name;
}

void set_no_delay(int socket) {
  const int on = 1;
  (void)setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void set_dead_peer_timeouts(int socket) {
  const int on = 1, idle_s = 30, interval_s = 5, probes = 3;
  const unsigned unacknowledged_ms = 15'000;
  (void)setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  (void)setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  (void)setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
  (void)setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  (void)setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof unacknowledged_ms);
}

void set_unsent_low_water(int socket, std::uint32_t bytes) {
  (void)setsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes);
}

std::uint64_t tcp_wmem_max() {
  std::ifstream file("/proc/sys/net/ipv4/tcp_wmem");
  std::uint64_t low = 0, middle = 0, high = 0;
  return file >> low >> middle >> high && high > 0 ? high : 4ull << 20;
}

}  // namespace p2pw
