// How verbs reach the daemon that the user means.
#pragma once

#include "cli/console.h"
#include "daemon/client/api_client.h"
#include "daemon/client/config.h"

namespace p2pw {

// The daemon's configuration; a machine without one has no daemon: unreachable.
Result<Config> daemon_config(const Console& console);

// Asks with Ctrl-C in mind: calls catch_interrupts().
Result<ApiClient> connect_daemon(const Console& console);

// `given`, or the only channel of the configuration. Errors: usage (none given and not exactly one there; no name), unreachable.
Result<Channel> chosen_channel(const Console& console, const std::string& given);

// "95%", "95", "0.5%": 0 < p <= 100. Error: usage.
Result<double> parse_percent(const std::string& text);

}  // namespace p2pw
