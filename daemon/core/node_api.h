// The answers of the local API (daemon/client/api.h) and of /metrics. Control thread only.
#pragma once

#include "daemon/core/api_server.h"
#include "daemon/core/staleness.h"

namespace p2pw {

class Node;

void answer_api(Node& node, ApiRequest request, ApiServer::Reply reply);

// Without trainers, and without nodes that are offline.
std::vector<api::Staleness> fleet_staleness(Node& node);

// Prometheus text; the table of names is in daemon/monitoring/README.md.
std::string metrics_text(Node& node);

}  // namespace p2pw
