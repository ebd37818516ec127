// A swarm's process that somebody has taken over, for tests/swarm/swarm_child_test.cpp: it starts as the real one does, and
// when it is given a bundle it does what its first argument says.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "daemon/swarm/child_process.h"
#include "protocol/swarm_child.pb.h"

namespace {

using namespace p2pw;

void say_bytes(const std::string& bytes) { (void)!send(kChildSocket, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
void say(const wire::SwarmReport& report) { say_bytes(report.SerializeAsString()); }

wire::SwarmOrder hear() {
  std::string packet;
  wire::SwarmOrder order;
  pollfd waiting{kChildSocket, POLLIN, 0};
  poll(&waiting, 1, -1);
  int handed = -1;
  if (receive_packet(kChildSocket, packet, &handed) != PacketState::done) _exit(0);
  order.ParseFromString(packet);
  return order;
}

void arrived(std::uint32_t number, std::vector<std::uint32_t> chunks) {
  wire::SwarmReport report;
  report.mutable_arrived()->set_number(number);
  for (std::uint32_t chunk : chunks) report.mutable_arrived()->add_chunks(chunk);
  say(report);
}

void handed_on(std::uint32_t number, std::uint32_t chunk) {
  wire::SwarmReport report;
  report.mutable_handed_on()->set_number(number);
  report.mutable_handed_on()->add_chunks(chunk);
  say(report);
}

void blocked(std::uint32_t number, const std::string& address, const std::string& reason) {
  wire::SwarmReport report;
  report.mutable_blocked()->set_number(number);
  report.mutable_blocked()->set_address(address);
  report.mutable_blocked()->set_reason(reason);
  say(report);
}

void started(std::uint32_t port) {
  wire::SwarmReport report;
  report.mutable_started()->set_port(port);
  say(report);
}

void hand_over_descriptors() {
  union {
    char bytes[CMSG_SPACE(64 * sizeof(int))];
    cmsghdr align;
  } control{};
  wire::SwarmReport report;
  report.mutable_count()->set_torrents(1);
  std::string text = report.SerializeAsString();
  iovec part{text.data(), text.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  cmsghdr* c = CMSG_FIRSTHDR(&message);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(64 * sizeof(int));
  for (int i = 0; i < 64; ++i) reinterpret_cast<int*>(CMSG_DATA(c))[i] = 2;
  for (int i = 0; i < 100; ++i) sendmsg(kChildSocket, &message, MSG_NOSIGNAL);
}

void misbehave(const std::string& how, std::uint32_t number) {
  if (how == "garbage") say_bytes("\xff\xff\xff\xff garbage");
  if (how == "empty") say_bytes("");
  if (how == "oversized") say_bytes(std::string(2 * kMaxPacket, '\0'));
  if (how == "unknown-bundle") arrived(number + 1, {0});
  if (how == "no-bundle") arrived(0, {0});
  if (how == "out-of-range") arrived(number, {0, 0x80000000u});
  if (how == "twice") arrived(number, {1, 1});
  if (how == "hands-on-nothing") handed_on(number, 1);
  if (how == "hands-on-unknown") handed_on(number, 4711);
  if (how == "starts-again") started(4711);
  if (how == "no-address") blocked(number, "\x1b]0;x\a", "because");
  if (how == "long-text") blocked(number, "127.0.0.1", std::string(5000, 'x'));
  if (how == "flood") {
    for (int i = 0; i < 1'000'000; ++i) blocked(number, "127.0.0.1", "again");
  }
  if (how == "hangs-up") {
    close(kChildSocket);
    pause();
  }
  if (how == "dies") abort();
  if (how == "lies") arrived(number, {0, 2});
  if (how == "control-characters") blocked(number, "127.0.0.1", "\x1b[2J\r\nforged line");
  if (how == "descriptors") {
    hand_over_descriptors();
    arrived(number, {0});
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "";
  const std::uint32_t port = hear().start().port();
  started(how == "other-port" ? port + 1 : port);
  while (true) {
    const wire::SwarmOrder order = hear();
    if (order.has_add()) misbehave(how, order.add().number());
  }
}
