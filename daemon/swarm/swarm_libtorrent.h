// The region's swarm on libtorrent 2.0.8. How it differs from an ordinary BitTorrent client:
//
// - Only the members named by set_members() exist: their addresses alone pass the IP filter, an unknown
// incoming peer is
//   refused, nobody is ever learnt from the network (no DHT, local discovery, peer exchange, UPnP, trackers,
//   uTP). It listens on and dials from the region's address.
// - No second-long tick is on the way of a chunk: torrents are dialled when they are added, a refused dial is
// tried again
//   within milliseconds, and the neighbour that had to refuse it (it did not know the bundle yet) dials back
//   as soon as it does.
// - Chunks live in bundle files (bundle_disk.h); one offered by offer() is announced without being copied.
// - A neighbour that owes blocks and delivers none for `stall` is cut off; one that sent bytes that fail
// their hash is
//   blocked for that bundle.
//
// No libtorrent header is needed to use this one.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "daemon/swarm/swarm.h"

namespace p2pw {

struct SwarmOptions {
  NodeKey self;
  std::string address;             // of the region: an IP literal, as other members are told it
  std::uint16_t port = 0;          // 0: any free one, see listen_port()
  std::uint64_t upload_limit = 0;  // bytes per second for all neighbours together; 0: none
  std::uint64_t download_limit = 0;
  std::chrono::milliseconds stall{2000};
  int disk_threads = 2;
};

// Runs a function later on the control thread; called from any thread.
using PostToControl = std::function<void(std::function<void()>)>;

// `events` hears from the swarm on the control thread until the swarm is destroyed, which is done there too
// (it waits for libtorrent's threads, some milliseconds). Errors: io (the address cannot be listened on),
// busy (somebody else does), config (no IP literal).
Result<std::unique_ptr<Swarm>> open_libtorrent_swarm(const SwarmOptions& options, SwarmEvents& events,
                                                     PostToControl post);

}  // namespace p2pw
