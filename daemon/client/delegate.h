// The trainer's online key of a channel and the `delegate` record that lets it sign `head`. `init` and every `seed` renew
// the record with the publisher key; the daemon holds the online key and never the publisher's.
#pragma once

#include "daemon/client/paths.h"
#include "protocol/record.h"

namespace p2pw {

inline constexpr std::chrono::hours kDelegateLifetime{30 * 24};

// A delegate envelope for `online`, good for kDelegateLifetime.
Result<Bytes> sign_delegate(const SigningKey& publisher, const Channel& channel, const VerifyingKey& online, WallTime now);

// Makes the online key where it is missing and writes a fresh delegate beside it. For `init`, while no daemon runs.
// Errors: io, no_space, untrusted (key file readable by others), config (damaged).
Status renew_delegate(const StatePaths& paths, const Channel& channel, const SigningKey& publisher, WallTime now);

}  // namespace p2pw
