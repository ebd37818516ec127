#include "tests/integration/wire_capture.h"

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>

namespace p2pw::testing {
namespace {

std::uint64_t word(const char* at) {
  std::uint64_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
std::size_t place(std::uint64_t value) { return (value * 0x9E3779B97F4A7C15u) >> 44; }
std::uint16_t big16(const unsigned char* p) { return static_cast<std::uint16_t>(p[0] << 8 | p[1]); }
std::uint32_t big32(const unsigned char* p) { return static_cast<std::uint32_t>(big16(p)) << 16 | big16(p + 2); }

}  // namespace

WireCapture::WireCapture(int net, std::string& why) : net_(net) {
  fd_ = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, htons(ETH_P_IP));
  if (fd_ < 0) {
    why = std::string("no packet socket (this needs root): ") + std::strerror(errno);
    return;
  }
  const int room = 512 << 20;
  setsockopt(fd_, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_IP);
  address.sll_ifindex = static_cast<int>(if_nametoindex("lo"));
  if (bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    why = std::string("cannot listen on lo: ") + std::strerror(errno);
    return;
  }
  thread_ = std::thread([this] { run(); });
}

WireCapture::~WireCapture() {
  if (thread_.joinable()) finish();
  if (fd_ >= 0) close(fd_);
}

void WireCapture::run() {
  std::string buffer(128 << 10, '\0');
  pollfd waiting{fd_, POLLIN, 0};
  for (;;) {
    if (poll(&waiting, 1, 100) <= 0) {
      if (stopping_) return;
      continue;
    }
    sockaddr_ll from{};
    socklen_t from_size = sizeof from;
    const ssize_t n = recvfrom(fd_, buffer.data(), buffer.size(), MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&from), &from_size);
    if (n <= 0 || from.sll_pkttype == PACKET_OUTGOING) continue;  // on lo each packet is seen leaving and coming
    take(reinterpret_cast<unsigned char*>(buffer.data()), static_cast<std::size_t>(n));
  }
}

void WireCapture::take(const unsigned char* packet, std::size_t size) {
  if (size < 20 || packet[0] >> 4 != 4 || packet[9] != IPPROTO_TCP) return;
  const std::size_t ip = (packet[0] & 15u) * 4u;
  const std::uint32_t from = big32(packet + 12), to = big32(packet + 16);
  auto ours = [&](std::uint32_t address) { return address >> 16 == (127u << 8 | static_cast<unsigned>(net_)); };
  if (size < ip + 20 || (!ours(from) && !ours(to))) return;
  const unsigned char* tcp = packet + ip;
  const std::size_t head = ip + (tcp[12] >> 4) * 4u, end = std::min<std::size_t>(size, big16(packet + 2) ? big16(packet + 2) : size);
  const std::uint32_t sequence = big32(tcp + 4);
  Stream& stream = flows_[{from, to, big16(tcp), big16(tcp + 2)}];
  if (tcp[13] & 2) stream = {sequence + 1, {}};  // SYN
  if (end <= head) return;
  std::string& part = stream.parts[sequence - stream.first];
  if (part.size() >= end - head) return;
  part.assign(reinterpret_cast<const char*>(packet) + head, end - head);
  bytes_ += part.size();
}

bool WireCapture::finish() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
  tpacket_stats stats{};
  socklen_t size = sizeof stats;
  return getsockopt(fd_, SOL_PACKET, PACKET_STATISTICS, &stats, &size) == 0 && stats.tp_drops == 0;
}

std::vector<std::string> WireCapture::streams() const {
  std::vector<std::string> out;
  for (const auto& [flow, stream] : flows_) {
    std::string& text = out.emplace_back();
    std::uint64_t at = 0;
    for (const auto& [offset, part] : stream.parts) {
      if (offset + part.size() <= at) continue;
      const std::size_t skip = offset < at ? static_cast<std::size_t>(at - offset) : 0;
      text.append(part, skip);
      at = offset + part.size();
    }
  }
  return out;
}

void Needles::add(const std::string& name, std::string bytes) {
  if (bytes.size() < 8) return;
  const std::uint64_t start = word(bytes.data());
  by_start_.emplace(start, needles_.size());
  filter_[place(start)] = true;
  needles_.push_back({name, std::move(bytes)});
}

std::vector<std::string> Needles::found_in(const std::string& text) const {
  std::set<std::string> found;
  for (std::size_t at = 0; at + 8 <= text.size(); ++at) {
    const std::uint64_t start = word(text.data() + at);
    if (!filter_[place(start)]) continue;
    for (auto [it, end] = by_start_.equal_range(start); it != end; ++it) {
      const Needle& needle = needles_[it->second];
      if (text.compare(at, needle.bytes.size(), needle.bytes) == 0) found.insert(needle.name);
    }
  }
  return {found.begin(), found.end()};
}

}  // namespace p2pw::testing
