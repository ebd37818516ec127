#include "daemon/swarm/neighbours.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace p2pw {
namespace {

// Keys and bundle ids are random bits, so a few of each and some mixing make an order that looks random.
std::uint64_t place(const BundleId& bundle, std::uint32_t ring, const NodeKey& key) {
  std::uint64_t a =
      std::hash<BundleId>()(bundle) ^ std::hash<NodeKey>()(key) ^ ((ring + 1) * 0x9e3779b97f4a7c15u);
  a = (a ^ (a >> 30)) * 0xbf58476d1ce4e5b9u;
  a = (a ^ (a >> 27)) * 0x94d049bb133111ebu;
  return a ^ (a >> 31);
}

}  // namespace

Neighbours::Change Neighbours::set(std::vector<SwarmPeer> members) {
  std::erase_if(members, [this](const SwarmPeer& member) { return member.key == self_; });
  std::sort(members.begin(), members.end());
  members.erase(std::unique(members.begin(), members.end(),
                            [](const SwarmPeer& a, const SwarmPeer& b) { return a.key == b.key; }),
                members.end());
  Change change;
  std::set_difference(members.begin(), members.end(), members_.begin(), members_.end(),
                      std::back_inserter(change.joined));
  std::set_difference(members_.begin(), members_.end(), members.begin(), members.end(),
                      std::back_inserter(change.left));
  members_ = std::move(members);
  return change;
}

std::vector<SwarmPeer> Neighbours::to_dial(const BundleId& bundle, SwarmGroups group) const {
  std::vector<SwarmPeer> chosen, sharing;
  std::copy_if(members_.begin(), members_.end(), std::back_inserter(sharing),
               [group](const SwarmPeer& member) { return (member.groups & group) != 0; });
  if (sharing.size() < kMesh) {
    std::copy_if(sharing.begin(), sharing.end(), std::back_inserter(chosen),
                 [this](const SwarmPeer& member) { return self_ < member.key; });
    return chosen;
  }
  std::set<SwarmPeer> follow, precede;
  for (std::uint32_t ring = 0; ring < kRings; ++ring) {
    const std::uint64_t mine = place(bundle, ring, self_);
    // How far each lies ahead of this node on the ring; the nearest follows it, the farthest precedes it.
    const auto ahead = [&](const SwarmPeer& member) { return place(bundle, ring, member.key) - mine; };
    const auto nearer = [&](const SwarmPeer& a, const SwarmPeer& b) { return ahead(a) < ahead(b); };
    follow.insert(*std::min_element(sharing.begin(), sharing.end(), nearer));
    precede.insert(*std::max_element(sharing.begin(), sharing.end(), nearer));
  }
  std::copy_if(follow.begin(), follow.end(), std::back_inserter(chosen),
               [&](const SwarmPeer& member) { return self_ < member.key || !precede.contains(member); });
  return chosen;
}

const SwarmPeer* Neighbours::find(const NodeKey& key) const {
  auto it = std::lower_bound(members_.begin(), members_.end(), key,
                             [](const SwarmPeer& member, const NodeKey& k) { return member.key < k; });
  return it != members_.end() && it->key == key ? &*it : nullptr;
}

const SwarmPeer* Neighbours::find(std::string_view address, std::uint16_t port) const {
  auto it = std::find_if(members_.begin(), members_.end(), [&](const SwarmPeer& member) {
    return member.port == port && member.address == address;
  });
  return it != members_.end() ? &*it : nullptr;
}

std::vector<SwarmPeer> Neighbours::at(std::string_view address) const {
  std::vector<SwarmPeer> found;
  std::copy_if(members_.begin(), members_.end(), std::back_inserter(found),
               [&](const SwarmPeer& member) { return member.address == address; });
  return found;
}

}  // namespace p2pw
