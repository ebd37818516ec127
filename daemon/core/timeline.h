// The timeline of one version: when which node was how far, summed up by region, and the path to the node that was last.
// Pure: the moments are handed in, all on one clock.
//
// Clocks: each node stamps with its own; a daemon that hears a report shifts it by the clock offset of the link that it
// came over (NTP's estimate from heartbeats), so one hop adds at most half of the round trip's asymmetry, typically well
// under a millisecond inside a region and a few between regions. A step may for that reason come out slightly negative; it
// is shown as zero.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "daemon/client/api.h"

namespace p2pw {

struct TimelineSource {
  std::string node, name, region;
  bool trainer = false;
  std::map<std::string, std::uint64_t> stages;  // microseconds
};

// Fills start_us, seconds, nodes, regions and path. Nothing known: all empty.
void fill_timeline(const std::vector<TimelineSource>& sources, api::TimelineReply& reply);

}  // namespace p2pw
