// Whom a daemon keeps links to: a pure function of the members. Links grow with regions, not with nodes: a node has links
// to its region's bootstrap daemons and gateway candidates; only candidates, bootstrap daemons and trainers have links
// across regions, to each other.
#pragma once

#include <set>

#include "protocol/placement.h"

namespace p2pw {

struct LinkPlan {
  std::set<NodeKey> peers;
  // The region has no live bootstrap daemon that this one could turn to: the configured addresses are needed.
  bool needs_configured = false;
};

LinkPlan plan_links(const Member& self, std::span<const Member> members, std::span<const Channel> channels,
                    std::size_t candidates);

}  // namespace p2pw
