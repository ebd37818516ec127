// How work that nobody waits for lets other work go first where cores are short.
#pragma once

#include <sys/resource.h>

#include <cerrno>

namespace p2pw {

// Adds to the nice value of the calling thread (on Linux it is a thread's alone) and of those that it starts from now on.
inline void give_way(int nicer) {
  errno = 0;
  const int nice = getpriority(PRIO_PROCESS, 0);
  if (errno == 0) setpriority(PRIO_PROCESS, 0, nice + nicer);
}

}  // namespace p2pw
