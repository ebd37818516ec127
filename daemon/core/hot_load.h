// /hot_load/v1/models/hot_load: the hot-load API that Fireworks documents, for trainers that speak it already.
//
//   POST {"identity": I, "incremental_snapshot_metadata": {"previous_snapshot_identity": P}, "reset_prompt_cache": R}
//     The version that I names is wanted: a node that holds it staged makes it active now, else as soon as it is staged.
//     P, when given, must name its parent. R: "all" (default), "none", "new_session", true, false: whether the engine drops
//     its cache for this load.
//   GET -> {"replicas": [{"readiness", "current_snapshot_identity", "loading_state": {"stage", "target_snapshot_identity"}}]}
//     One for each node of the channel that this daemon has heard of. Stages: pending, downloading, loading, done, error.
//   POST .../hint: taken, and not needed.
//
// Bytes do not come this way: they are published with `p2pw seed`. The number at the end of an identity is the version; when
// there is no such version, the training step that a version was published with. The header fireworks-deployment names the
// channel by its last part, when there are several.
#pragma once

#include <optional>

#include "daemon/core/api_server.h"
#include "protocol/ids.h"

namespace p2pw {

class Node;

inline constexpr std::string_view kHotLoadPath = "/hot_load/v1/models/hot_load";

void answer_hot_load(Node& node, const ApiRequest& request, const ApiServer::Reply& reply);

// The digits at the end of an identity as a number; nothing when there are none, or it is no single path segment.
std::optional<std::uint64_t> number_of_identity(std::string_view identity);
// The stage that a node's state amounts to.
std::string_view hot_load_stage(std::string_view node_state);

}  // namespace p2pw
