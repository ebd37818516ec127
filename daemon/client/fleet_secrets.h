// The fleet secrets of the state folder: fleet/0001.secret and so on, one each. The highest number is the current one;
// older ones open the frames of older lineages.
#pragma once

#include <vector>

#include "daemon/client/paths.h"
#include "protocol/sealing.h"

namespace p2pw {

// Newest first; empty when the node has not enrolled yet. Errors: io, untrusted (readable by others), config (damaged).
Result<std::vector<FleetSecret>> load_fleet_secrets(const StatePaths& paths);

// Makes it the current one. A secret that is there already changes nothing. Errors as above, no_space.
Status add_fleet_secret(const StatePaths& paths, const FleetSecret& secret);

}  // namespace p2pw
