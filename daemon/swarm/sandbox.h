// Takes away from a process what running a swarm does not need: it keeps the descriptors that it has and is handed,
// memory, threads, clocks, TCP and UDP sockets. It cannot open or name a file, start a program, make a unix socket,
// signal or look into another process, change a file's size or map executable memory, and it can listen on one port.
//
// Two means that hold apart from each other, so that a kernel that lacks one still gives most of it: Landlock (no file,
// no signal to others, no abstract unix socket, no other port) and seccomp (a list of the system calls that are left;
// the others fail with EPERM).
//
// Threads: call it from the first thread before there are others; later threads inherit.
#pragma once

#include <cstdint>

namespace p2pw {

struct Sandbox {
  std::uint32_t landlock = 0;  // ABI in use; 0: the kernel has none
  bool seccomp = false;
};

// For good. `port`: where it may listen, besides on ports that the kernel picks.
Sandbox enter_sandbox(std::uint16_t port);

// Before the sandbox: nothing can be gained by exec, no core, nobody of the same user may look in, the signal that ends
// this process when `parent` is gone, and none of the descriptors from `first_closed` on. False: the parent is gone.
bool seal_process(int parent, int first_closed);

}  // namespace p2pw
