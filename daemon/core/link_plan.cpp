#include "daemon/core/link_plan.h"

#include <algorithm>
#include <map>

namespace p2pw {

LinkPlan plan_links(const Member& self, std::span<const Member> members, std::span<const Channel> channels,
                    std::size_t candidates) {
  // One region after the other: each looks at its own members only.
  std::map<Region, std::vector<Member>> regions;
  for (const Member& m : members) regions[m.region].push_back(m);
  std::set<NodeKey> gateways;  // candidates of any region and channel
  for (const Channel& channel : channels) {
    for (const auto& [region, own] : regions) {
      auto keys = gateway_candidates(channel, region, own, candidates);
      gateways.insert(keys.begin(), keys.end());
    }
  }
  bool far = self.trainer || self.bootstrap || gateways.contains(self.key);
  LinkPlan plan;
  bool own_bootstrap = false, known = false;
  for (const Member& m : members) {
    if (m.key == self.key) continue;
    bool near = m.region == self.region;
    bool hub = m.trainer || m.bootstrap || gateways.contains(m.key);
    if (near && m.bootstrap && !m.suspect) own_bootstrap = true;
    known = known || ((m.trainer || m.bootstrap) && !m.suspect);
    // A candidate waits for the nodes of its region to dial it; with so few of them it does no harm to dial as well.
    if ((near && (hub || (far && !self.trainer))) || (far && hub)) plan.peers.insert(m.key);
  }
  // A bootstrap daemon that knows no other must find the fleet by itself: nobody dials one that nobody has heard of.
  plan.needs_configured = self.bootstrap ? !known : !own_bootstrap;
  return plan;
}

}  // namespace p2pw
