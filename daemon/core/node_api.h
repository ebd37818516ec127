// The answers of the local API (daemon/client/api.h) and of /metrics. Control thread only.
#pragma once

#include "daemon/core/api_server.h"

namespace p2pw {

class Node;

void answer_api(Node& node, ApiRequest request, ApiServer::Reply reply);

// Prometheus text; the table of names is in daemon/monitoring/README.md.
std::string metrics_text(Node& node);

}  // namespace p2pw
