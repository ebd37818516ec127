#include "daemon/swarm/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace p2pw {
namespace {

union OneDescriptor {
  char bytes[CMSG_SPACE(sizeof(int))];
  cmsghdr align;
};

msghdr message_of(iovec& part) {
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  return message;
}

// As many as came, of which one at most is kept.
int take_descriptors(msghdr& message) {
  int kept = -1;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
      if (kept >= 0) ::close(kept);
      kept = fd;
    }
  }
  return kept;
}

// The two programs are to be linked alike, so what the loader looks at goes along; nothing else does.
std::vector<char*> loader_environment() {
  std::vector<char*> kept;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (std::strncmp(*variable, "LD_", 3) == 0) kept.push_back(*variable);
  }
  kept.push_back(nullptr);
  return kept;
}

}  // namespace

PacketState send_packet(int socket, const std::string& packet, int handed) {
  iovec part{const_cast<char*>(packet.data()), packet.size()};
  msghdr message = message_of(part);
  OneDescriptor control{};
  if (handed >= 0) {
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(c), &handed, sizeof handed);
  }
  while (true) {
    const ssize_t n = ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n >= 0) return PacketState::done;
    if (errno == EINTR) continue;
    // ETOOMANYREFS: descriptors on their way that nobody has taken yet.
    const bool full = errno == EAGAIN || errno == ENOBUFS || errno == ETOOMANYREFS;
    return full ? PacketState::would_wait : PacketState::ended;
  }
}

PacketState receive_packet(int socket, std::string& packet, int* handed) {
  packet.resize(kMaxPacket);
  iovec part{packet.data(), packet.size()};
  msghdr message = message_of(part);
  OneDescriptor control{};
  if (handed != nullptr) {
    *handed = -1;
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
  }
  ssize_t n;
  do {
    n = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  packet.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  if (n < 0) return errno == EAGAIN ? PacketState::would_wait : PacketState::ended;
  if (handed != nullptr) *handed = take_descriptors(message);
  return n == 0 || (message.msg_flags & MSG_TRUNC) != 0 ? PacketState::ended : PacketState::done;
}

Result<ChildProcess> ChildProcess::start(const std::string& program, const std::vector<std::string>& arguments) {
  auto failed = [&](int number) {
    return fail(ErrorCode::io, "the swarm's process (" + program + ") cannot be started: " + std::strerror(number));
  };
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return failed(errno);
  ChildProcess child;
  child.socket_ = pair[0];
  // Its end may have any number here; above the ones that it gets there, so that none is overwritten.
  const int theirs = fcntl(pair[1], F_DUPFD_CLOEXEC, kChildSocket + 1);
  ::close(pair[1]);
  if (theirs < 0) return failed(errno);

  std::vector<std::string> words{program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  words.push_back(std::to_string(getpid()));
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<char*> environment = loader_environment();

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, theirs, kChildSocket);
  posix_spawn_file_actions_addclosefrom_np(&actions, kChildSocket + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  const int error = posix_spawn(&child.pid_, program.c_str(), &actions, &attributes, argv.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  ::close(theirs);
  if (error != 0) {
    child.pid_ = -1;
    return failed(error);
  }
  child.pidfd_ = static_cast<int>(syscall(SYS_pidfd_open, child.pid_, 0));
  if (child.pidfd_ < 0) return failed(errno);
  return child;
}

ChildProcess::~ChildProcess() {
  close_all();
}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  close_all();
  pid_ = std::exchange(other.pid_, -1);
  socket_ = std::exchange(other.socket_, -1);
  pidfd_ = std::exchange(other.pidfd_, -1);
  return *this;
}

void ChildProcess::close_all() {
  kill();
  reap();
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  if (pidfd_ >= 0) ::close(std::exchange(pidfd_, -1));
}

void ChildProcess::kill() {
  if (pid_ > 0) ::kill(pid_, SIGKILL);
}

std::string ChildProcess::reap() {
  if (pid_ <= 0) return {};
  int status = 0;
  pid_t reaped;
  do {
    reaped = waitpid(pid_, &status, 0);
  } while (reaped < 0 && errno == EINTR);
  pid_ = -1;
  if (reaped < 0) return "it is nobody's";
  return WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                             : "exit code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace p2pw
