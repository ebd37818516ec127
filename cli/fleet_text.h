// The fleet in few lines, for `p2pw status` and `p2pw top`: regions summed up, the nodes worst first. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "daemon/client/api.h"

namespace p2pw {

std::string name_of(const api::NodeStatus& node);  // its name, or the first digits of its key
std::string name_of(const api::LinkStatus& link);
std::string version_text(std::uint64_t version);   // "-" for none

// Highest version of each channel that is sealed here, or active anywhere.
using NewestVersions = std::map<std::string, std::uint64_t>;
NewestVersions newest_versions(const api::StatusReply& status);

// Not on the newest version of its channel, or not well.
bool needs_attention(const NewestVersions& newest, const api::NodeStatus& node);

// By need of attention, then lag, then name.
std::vector<const api::NodeStatus*> worst_first(const api::StatusReply& status);

struct RegionSummary {
  std::string channel, region;
  std::size_t nodes = 0, active = 0, staged = 0, offline = 0;  // active, staged: on the newest version
  const api::NodeStatus* slowest = nullptr;                    // of those that are not active on it; null = none
};
std::vector<RegionSummary> by_region(const api::StatusReply& status);

std::string lag_text(double seconds);  // "-" for none

}  // namespace p2pw
