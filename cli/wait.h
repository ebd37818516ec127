// Waiting for the fleet, as `wait` and `seed --wait-active` do.
#pragma once

#include <chrono>

#include "cli/console.h"
#include "daemon/client/api_client.h"

namespace p2pw {

struct FleetWait {
  Channel channel;
  std::uint64_t version = 0;
  double percent = 100;
  bool of_live = false;
  std::chrono::milliseconds timeout{0};
};

// Errors: timed_out (the numbers so far are the console's partial answer), interrupted, unreachable, not_found.
Result<api::WaitReply> wait_for_fleet(ApiClient& daemon, const FleetWait& wanted, Console& console);

}  // namespace p2pw
