// Who takes what where: pure functions of (run, bundle index, live members). Every daemon that has the same members gets
// the same answer, so nothing is negotiated; leases (lease.h) make sure of one copy while views differ.
//
// Only members that follow the bundle's channel count: everybody else has neither its records nor a place for its bytes.
//
// Rendezvous hashing (Thaler and Ravishankar, 1998): each candidate gets a score from hash(subject, candidate); the
// highest wins. Candidates are ranked for the channel and rotated by the bundle's index: neighbouring bundles, which are in
// flight together, go through different gateways, and the first ones of every version through the same, whose connections
// are warm. Regions are ranked for the run, so that no region is always the last, and rotated likewise.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "protocol/ids.h"

namespace p2pw {

// Which channels a member follows. One that was made without a list follows them all.
class Follows {
 public:
  Follows() = default;
  explicit Follows(std::vector<Channel> only);
  bool has(const Channel& channel) const;
  const std::vector<Channel>& listed() const { return only_; }  // sorted
  auto operator<=>(const Follows&) const = default;

 private:
  bool all_ = true;
  std::vector<Channel> only_;
};

struct Member {
  NodeKey key;
  Region region;
  bool trainer = false;    // publishes; takes part in no swarm
  bool bootstrap = false;
  bool suspect = false;    // keeps its place, loses its leases
  std::uint32_t wan_mbit = 0;  // what it says that it sends to other regions at most; 0: as much as there is
  Follows follows{};           // who does not follow a channel takes no part in spreading it
  auto operator<=>(const Member&) const = default;
};

inline constexpr std::size_t kGatewayCandidates = 4;

// The first G live rollout nodes of the region that follow the channel, in rendezvous order for it. Only these, the trainer and
// bootstrap daemons keep links across regions.
std::vector<NodeKey> gateway_candidates(const Channel& channel, const Region& region, std::span<const Member> members,
                                        std::size_t count = kGatewayCandidates);

// What is placed.
struct BundlePlace {
  Channel channel;
  RunId run;
  BundleIndex index;
};

// The region's gateway for this bundle, then its successors; suspects last.
std::vector<NodeKey> gateway_succession(const BundlePlace& bundle, const Region& region,
                                        std::span<const Member> members, std::size_t count = kGatewayCandidates);

// Regions with rollout nodes of the channel in the order in which the bundle visits them: the home region first, slow ones last, so that
// nobody waits behind them. A region is as fast as the least that one of its members states; it is slow when that is less
// than half of the median of the regions away from home.
std::vector<Region> region_order(const BundlePlace& bundle, const Region& home, std::span<const Member> members);

// The same for many bundles at once: looks at the members only once.
struct RegionRate {
  Region region;
  std::uint32_t mbit = 0;
};
std::vector<RegionRate> region_rates(const Channel& channel, std::span<const Member> members);
std::vector<Region> order_regions(const BundlePlace& bundle, const Region& home, std::vector<RegionRate> rates);

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
