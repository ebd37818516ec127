#include "daemon/core/notify.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "daemon/core/node.h"

namespace p2pw {

void notify_service_manager(const std::string& state) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr || (path[0] != '/' && path[0] != '@')) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::size_t length = std::strlen(path);
  if (length >= sizeof address.sun_path) return;
  std::memcpy(address.sun_path, path, length);
  if (path[0] == '@') address.sun_path[0] = '\0';
  int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  sendto(fd, state.data(), state.size(), MSG_NOSIGNAL, reinterpret_cast<sockaddr*>(&address),
         static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length));
  close(fd);
}

Watchdog::Watchdog(boost::asio::io_context& io, Node& node) : timer_(io), node_(node) { beat(); }

void Watchdog::beat() {
  std::string status = "WATCHDOG=1\nSTATUS=";
  for (auto& [channel, follower] : node_.followers()) {
    status += channel.str() + " " + follower->state() + " at version " + std::to_string(follower->version_active().value()) + "; ";
  }
  notify_service_manager(status + std::to_string(node_.hub().links().size()) + " links");
  timer_.expires_after(std::chrono::seconds(2));
  timer_.async_wait([this](boost::system::error_code error) {
    if (!error) beat();
  });
}

}  // namespace p2pw
