// The other ways to get a version to everybody, as fluids: each moves the same bytes over the same accesses, with the same
// codec speeds, every transfer pipelined with encoding and rebuilding. Where their makers leave something open they get the
// better of it; baselines.cpp says what is assumed.
#pragma once

#include "simulations/src/fleet/outcome.h"

namespace p2pw::fleet {

// What each strategy ships of one version when it uses its own codec and anchors.
struct OwnBytes {
  double delta = 0;
  double anchor = 0;             // pushed with every `anchor_every`th version
  std::size_t anchor_every = 0;  // 0: never
};
OwnBytes own_bytes(const Scenario& scenario, std::string_view strategy);

std::vector<std::string> strategy_names();
// Any of "object-store", "relay-tree", "fixed-gateway", "open-swarm". `own`: with its own codec and anchors.
Outcome run_baseline(const Scenario& scenario, std::string_view strategy, std::uint64_t seed, bool own);

}  // namespace p2pw::fleet
