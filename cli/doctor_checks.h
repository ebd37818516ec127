// What `p2pw doctor` looks at. Each check looks at one thing, changes nothing, and says what to do when it is not well.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "daemon/client/api.h"
#include "daemon/client/config.h"

namespace p2pw::doctor {

enum class Verdict { good, warning, bad };
std::string_view name_of(Verdict verdict);  // "ok", "warning", "failed"

struct Finding {
  std::string what;    // "node key"
  Verdict verdict = Verdict::good;
  std::string detail;  // what was seen
  std::string remedy;  // what to do; empty when all is well
};
using Findings = std::vector<Finding>;

// What a user who is not root may not look at is no fault of the machine's: such findings become warnings with `sudo`.
void excuse_user(Findings& findings);

// Files and folders of this machine.
void check_keys(const Config& config, WallTime now, Findings& findings);
void check_state_folder(const Config& config, Findings& findings);
void check_room(const Config& config, Findings& findings);

// The network, from here. `daemon_runs`: then the ports are its own.
void check_ports(const Config& config, bool daemon_runs, Findings& findings);
// From outside: whether this daemon is reached at the address that it tells the others. Only when it runs.
void check_reachable(const Config& config, const std::function<bool()>& stop, Findings& findings);
// The other way: whether the members that the daemon knows can be reached from here; the first few of them.
void check_peers(const Config& config, const api::PeersReply& peers, const std::function<bool()>& stop, Findings& findings);
void check_bootstrap(const Config& config, const std::function<bool()>& stop, Findings& findings);

// The engine of each channel: whether it can be reached and would take what a load asks first. Nothing is loaded, no program
// run.
void check_hooks(const Config& config, const std::function<bool()>& stop, Findings& findings);

// What the running daemon knows.
void check_channels(const api::StatusReply& status, Findings& findings);
// Shared storage, as the daemon finds it: it alone has the rights and the credentials.
void check_mirror(const api::StatusReply& status, Findings& findings);
// What a neighbour that takes libtorrent over would have gained.
void check_swarm(const api::StatusReply& status, Findings& findings);
void check_clocks(const api::StatusReply& status, Findings& findings);
// Reads the active slot of each channel and compares it with what the publisher signed: the next delta starts from it.
void check_active_slots(const api::StatusReply& status, const std::function<bool()>& stop, Findings& findings);
// Socket buffers of the kernel (largest, bytes) against rate x round trip of each link, spread over its stripes.
void check_buffers(const api::StatusReply& status, std::uint64_t read_max, std::uint64_t write_max, Findings& findings);

}  // namespace p2pw::doctor
