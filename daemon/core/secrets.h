// The secrets and enrolments of the state folder, as the daemon reads and writes them.
#pragma once

#include "daemon/client/config.h"
#include "daemon/link/trust.h"
#include "protocol/enrolment.h"
#include "protocol/signing.h"
#include "protocol/token.h"

namespace p2pw {

// Errors: not_found (with the verb that makes it), untrusted (readable by others), config (damaged).
Result<SigningKey> load_node_key(const StatePaths& paths);

// Empty when there are none.
Result<Enrolments> load_enrolments(const StatePaths& paths);
Status save_enrolments(const StatePaths& paths, const Enrolments& enrolments);

// The token that `join` left here. Errors: not_found (nothing to enrol for), usage (no token).
Result<JoinToken> load_pending_enrolment(const StatePaths& paths);
void drop_pending_enrolment(const StatePaths& paths);

// Nothing when the configuration has no [[allow]].
std::optional<AllowList> allow_list_of(const Config& config);

}  // namespace p2pw
