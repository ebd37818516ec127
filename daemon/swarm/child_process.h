// The process that runs a swarm, as its daemon holds it: a program with nothing but standard input and output (on
// /dev/null), the daemon's standard error and one end of a socket pair, without the daemon's environment (save what the
// dynamic loader reads).
//
// Messages are packets of at most kMaxPacket bytes, which keep their bounds, so neither side has to find them again in a
// stream, and each has its own bound. Sending never waits.
//
// Threads: one. Killed and reaped with this object; a killed process is gone within milliseconds.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <vector>

#include "protocol/result.h"

namespace p2pw {

inline constexpr std::size_t kMaxPacket = 64u << 10;
inline constexpr int kChildSocket = 3;  // the descriptor that the process finds its end at

// Of one end of the pair.
enum class PacketState { done, would_wait, ended };
// `handed` >= 0: a descriptor that goes along; it stays open here.
PacketState send_packet(int socket, const std::string& packet, int handed = -1);
// `packet` is resized to what came. A packet that is longer than kMaxPacket, or empty, counts as the end. `handed`: null
// when none is expected (what comes nevertheless is closed), else the descriptor that came along or -1.
PacketState receive_packet(int socket, std::string& packet, int* handed = nullptr);

class ChildProcess {
 public:
  // `program` with these arguments and, as the last one, this process's id. Errors: io.
  static Result<ChildProcess> start(const std::string& program, const std::vector<std::string>& arguments);
  ChildProcess() = default;
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept { *this = std::move(other); }
  ChildProcess& operator=(ChildProcess&& other) noexcept;

  pid_t pid() const { return pid_; }
  int socket() const { return socket_; }
  int pidfd() const { return pidfd_; }  // readable when it has ended
  void kill();                          // SIGKILL
  // Waits for its end. "signal 9", "exit code 3".
  std::string reap();

 private:
  void close_all();
  pid_t pid_ = -1;
  int socket_ = -1, pidfd_ = -1;
};

}  // namespace p2pw
