// The region's swarm in a process of its own (swarm_child_main.h), which holds no key, no secret and no file but the
// bundles' descriptors, and is confined (sandbox.h): who takes libtorrent over has gained that process, and not the daemon.
//
// What crosses is a message of some bytes for each chunk, offered or arrived; the bytes of chunks lie in the bundle's
// file, which both have open. When the process ends, by itself or because it said something that it cannot mean
// (child_ledger.h), another one is started after a while, on the same port, and is told everything again.
//
// Threads: that of the io_context, which is the control thread. Sending waits for nothing: what the process does not take
// at once is kept here, and a process that takes nothing any more is ended.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "daemon/swarm/swarm_libtorrent.h"

namespace p2pw {

// The first and only argument of p2pwd that makes it that process.
inline constexpr const char* kSwarmChildArgument = "swarm-process";

struct SwarmChildOptions {
  SwarmOptions swarm;
  std::string program = "/proc/self/exe";  // also when another one lies at its path by now
  std::vector<std::string> arguments{kSwarmChildArgument};
  std::chrono::milliseconds first_wait{100}, last_wait{30'000};  // before another one is started; doubles
  std::chrono::seconds steady{60};      // who lived that long is replaced after first_wait
  std::chrono::seconds silence{30};     // without its counters: hung
};

// Returns when the process listens. `events` hears on the control thread until the swarm is destroyed. Errors: io (it
// cannot be started, or cannot listen), busy (somebody listens there, for more than the moment that the process of a
// daemon that was killed may need to go), config (no IP literal), timed_out.
Result<std::unique_ptr<Swarm>> open_child_swarm(boost::asio::io_context& io, SwarmChildOptions options,
                                                SwarmEvents& events);

}  // namespace p2pw
