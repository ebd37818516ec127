#include "daemon/core/link_plan.h"

#include <algorithm>

namespace p2pw {

LinkPlan plan_links(const Member& self, std::span<const Member> members, std::span<const Channel> channels,
                    std::size_t candidates) {
  std::set<Region> regions;
  for (const Member& m : members) regions.insert(m.region);
  std::set<NodeKey> gateways;  // candidates of any region and channel
  for (const Channel& channel : channels) {
    for (const Region& region : regions) {
      auto keys = gateway_candidates(channel, region, members, candidates);
      gateways.insert(keys.begin(), keys.end());
    }
  }
  bool far = self.trainer || self.bootstrap || gateways.contains(self.key);
  LinkPlan plan;
  bool own_bootstrap = self.bootstrap;
  for (const Member& m : members) {
    if (m.key == self.key) continue;
    bool near = m.region == self.region;
    bool hub = m.trainer || m.bootstrap || gateways.contains(m.key);
    if (near && m.bootstrap && !m.suspect) own_bootstrap = true;
    // A candidate waits for the nodes of its region to dial it; with so few of them it does no harm to dial as well.
    if ((near && (hub || (far && !self.trainer))) || (far && hub)) plan.peers.insert(m.key);
  }
  plan.needs_configured = !own_bootstrap;
  return plan;
}

}  // namespace p2pw
