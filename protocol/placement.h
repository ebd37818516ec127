// Who takes what where: pure functions of (bundle id, live members). Every daemon that has the same members gets the
// same answer, so nothing is negotiated; leases (lease.h) make sure of one copy while views differ.
//
// Rendezvous hashing (Thaler and Ravishankar, 1998): each candidate gets a score from hash(salt, candidate); the highest
// wins. When a member leaves, only what it held moves.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "protocol/ids.h"

namespace p2pw {

struct Member {
  NodeKey key;
  Region region;
  bool trainer = false;    // publishes; takes part in no swarm
  bool bootstrap = false;
  bool suspect = false;    // keeps its place, loses its leases
  auto operator<=>(const Member&) const = default;
};

inline constexpr std::size_t kGatewayCandidates = 4;

// The first G live rollout nodes of the region in rendezvous order for the channel. Only these, the trainer and
// bootstrap daemons keep links across regions.
std::vector<NodeKey> gateway_candidates(const Channel& channel, const Region& region, std::span<const Member> members,
                                        std::size_t count = kGatewayCandidates);

// The region's gateway for this bundle, then its successors: candidates in rendezvous order of the bundle, suspects last.
std::vector<NodeKey> gateway_succession(const BundleId& bundle, const Channel& channel, const Region& region,
                                        std::span<const Member> members);

// Regions with rollout nodes in the order in which the bundle visits them: the home region first, the others in
// rendezvous order.
std::vector<Region> region_order(const BundleId& bundle, const Region& home, std::span<const Member> members);

// The relay tree over region_order(): the root is the trainer, which feeds `root_children` regions; every region feeds
// up to `fan_out` further ones.
struct TreeShape {
  std::size_t root_children = 1;
  std::size_t fan_out = 1;
};
struct RelayTree {
  std::vector<Region> order;
  std::vector<std::int32_t> parent;  // index into order; -1 = the trainer
  std::vector<std::size_t> children_of(std::int32_t index) const;  // -1 for the trainer's
  std::int32_t index_of(const Region& region) const;               // -2 when absent
};
RelayTree relay_tree(std::vector<Region> order, TreeShape shape);

}  // namespace p2pw
