#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "daemon/core/api_server.h"

namespace p2pw {

Result<int> listen_unix(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.string().size() >= sizeof address.sun_path) {
    return fail(ErrorCode::config, path.string() + ": too long for a unix socket (107 characters at most); set [api] socket");
  }
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  auto* name = reinterpret_cast<sockaddr*>(&address);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return fail(ErrorCode::io, std::string("cannot make a socket: ") + std::strerror(errno));
  if (connect(fd, name, sizeof address) == 0) {
    close(fd);
    return fail(ErrorCode::busy, path.string() + ": another daemon answers there; stop it, or give this one a state folder of its own");
  }
  unlink(path.c_str());
  mode_t before = umask(0117);
  bool good = bind(fd, name, sizeof address) == 0 && listen(fd, 64) == 0;
  int error = errno;
  umask(before);
  if (!good) {
    close(fd);
    return fail(ErrorCode::io, path.string() + ": cannot listen: " + std::strerror(error));
  }
  return fd;
}

}  // namespace p2pw
