#include "cli/doctor_sockets.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace p2pw::doctor {
namespace {

constexpr int kAskStopMs = 100;

}  // namespace

Addresses resolve(const std::string& host, const std::string& port, int flags, std::string& why) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) why = gai_strerror(error);
  return Addresses(error == 0 ? found : nullptr, &freeaddrinfo);
}

std::string wait_for(int fd, short events, const std::function<bool()>& stop) {
  auto until = std::chrono::steady_clock::now() + kPatience;
  pollfd entry{fd, events, 0};
  while (::poll(&entry, 1, kAskStopMs) <= 0) {
    if (stop && stop()) return "interrupted";
    if (std::chrono::steady_clock::now() > until) return "no answer";
  }
  return {};
}

Descriptor connect_to(const std::string& host, std::uint16_t port, const std::string& from, const std::function<bool()>& stop,
                      std::string& why) {
  Addresses found = resolve(host, std::to_string(port), 0, why);
  if (!found) return Descriptor();
  Descriptor socket{::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  std::string no_matter;
  Addresses local = resolve(from, "0", AI_NUMERICHOST, no_matter);
  if (!from.empty() && local && local->ai_family == found->ai_family &&
      ::bind(socket.get(), local->ai_addr, local->ai_addrlen) != 0) {
    why = "from " + from + ": " + std::strerror(errno);
    return Descriptor();
  }
  if (::connect(socket.get(), found->ai_addr, found->ai_addrlen) == 0) return socket;
  if (errno != EINPROGRESS) {
    why = std::strerror(errno);
    return Descriptor();
  }
  why = wait_for(socket.get(), POLLOUT, stop);
  if (!why.empty()) return Descriptor();
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error == 0) return socket;
  why = std::strerror(error);
  return Descriptor();
}

}  // namespace p2pw::doctor
