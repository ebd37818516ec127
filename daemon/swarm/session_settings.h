// How a libtorrent session is set up for a region: nothing found by itself, bound to one address, latency
// before fairness.
#pragma once

#include <libtorrent/fwd.hpp>
#include <libtorrent/ip_filter.hpp>
#include <libtorrent/settings_pack.hpp>

#include "daemon/swarm/swarm_libtorrent.h"

namespace p2pw {

lt::settings_pack session_settings(const SwarmOptions& options);

// Nobody but `members`.
lt::ip_filter members_only(const std::vector<SwarmPeer>& members);

// Puts every neighbour into one class of ours with the options' rate limits and no unchoke slots.
// libtorrent's own class for private addresses would ignore the limits.
void set_region_class(lt::session_handle& session, const SwarmOptions& options);

// To be called after connect_peer(), with another `turn` each time: a torrent's list of peers is made by its first one, and
// libtorrent 2.0.8 tells it max_failcount only when that changes. Without, three refused dials are the last (of a neighbour
// whose process takes a second to come back).
void never_give_up_on_peers(lt::session_handle& session, bool turn);

}  // namespace p2pw
