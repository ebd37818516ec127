#include "daemon/swarm/neighbours.h"

#include <algorithm>
#include <iterator>

namespace p2pw {

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

const SwarmPeer* Neighbours::find(const NodeKey& key) const {
  auto it = std::lower_bound(members_.begin(), members_.end(), key,
                             [](const SwarmPeer& member, const NodeKey& k) { return member.key < k; });
  return it != members_.end() && it->key == key ? &*it : nullptr;
}

const SwarmPeer* Neighbours::find(std::string_view address, std::uint16_t port) const {
  auto it = std::find_if(members_.begin(), members_.end(),
                         [&](const SwarmPeer& member) { return member.port == port && member.address == address; });
  return it != members_.end() ? &*it : nullptr;
}

std::vector<SwarmPeer> Neighbours::at(std::string_view address) const {
  std::vector<SwarmPeer> found;
  std::copy_if(members_.begin(), members_.end(), std::back_inserter(found),
               [&](const SwarmPeer& member) { return member.address == address; });
  return found;
}

}  // namespace p2pw
