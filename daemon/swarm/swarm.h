// A region's swarm: one torrent for each bundle, among the live members of this region and nobody else. For real use it is
// libtorrent (swarm_libtorrent.h) in a process of its own (swarm_child.h); tests and the fleet simulation have their own.
//
// Threads: called from the control thread only; events arrive on the control thread. Nothing here blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "chunker/bundle_file.h"
#include "protocol/record.h"

namespace p2pw {

// Who shares which bundles: bits that the caller gives a meaning. Only members with the bundle's bit are dialled for it.
using SwarmGroups = std::uint64_t;
inline constexpr SwarmGroups kEveryGroup = ~SwarmGroups{0};

// Where a member's swarm listens: IP literal and port.
struct SwarmPeer {
  NodeKey key;
  std::string address;
  std::uint16_t port = 0;
  SwarmGroups groups = kEveryGroup;
  auto operator<=>(const SwarmPeer&) const = default;
};

class SwarmEvents {
 public:
  virtual ~SwarmEvents() = default;
  // A neighbour's chunk has passed its hash check and can be read from the bundle file.
  virtual void swarm_chunk_arrived(const BundleId& bundle, ChunkIndex chunk) = 0;
  // A chunk that was offered is at a neighbour too; or no neighbour is there that could take it.
  virtual void swarm_chunk_handed_on(const BundleId&, ChunkIndex) {}
  // A neighbour sent bytes that failed their hash, or is otherwise to be reported; it is blocked for that bundle already.
  virtual void swarm_peer_blocked(const BundleId& bundle, const std::string& address, const std::string& reason) = 0;
  virtual void swarm_failed(const BundleId& bundle, const Error& error) = 0;
  // The process that ran the swarm is gone; another one takes its place by itself and is told everything again.
  virtual void swarm_ended(const std::string&) {}
};

// What keeps the swarm away from the rest of the daemon.
struct SwarmConfinement {
  bool own_process = false;
  std::uint32_t landlock = 0;  // ABI in use; 0: none
  bool seccomp = false;
  std::uint64_t ended = 0;  // processes that ended unasked, since the start
  bool whole() const { return own_process && landlock > 0 && seccomp; }
};

struct SwarmCounters {
  std::uint64_t payload_sent = 0, payload_received = 0, redundant = 0, hash_failures = 0;
  std::uint32_t torrents = 0, connections = 0, refused_strangers = 0;
};

class Swarm {
 public:
  virtual ~Swarm() = default;
  // Starts a bundle: dials the members of its group at once. Chunks that `file` has are offered, the others fetched.
  virtual void add(const BundleId& id, const BundleRecord& record, std::vector<ChunkRoot> roots,
                   std::shared_ptr<BundleFile> file, SwarmGroups group) = 0;
  // A chunk that came another way and is in the bundle file now (hash checked by the caller).
  virtual void offer(const BundleId& id, ChunkIndex chunk) = 0;
  virtual void remove(const BundleId& id) = 0;
  // The region's live members apart from this node. Newcomers are dialled for every bundle at once, others dropped.
  virtual void set_members(std::vector<SwarmPeer> members) = 0;
  // Cuts a hung neighbour off now, rather than at libtorrent's time-out.
  virtual void drop(const NodeKey& member) = 0;
  virtual SwarmCounters counters() const = 0;
  virtual std::uint16_t listen_port() const = 0;
  virtual SwarmConfinement confinement() const { return {}; }
  // A chunk that the swarm vouched for turned out to be something else: whoever said so is not to be believed any more.
  virtual void distrust(const std::string&) {}
};

}  // namespace p2pw
