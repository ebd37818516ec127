// The rates of the regions that follow a channel, for many bundles at once: looks at all members once for each channel.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "protocol/placement.h"

namespace p2pw {

class ChannelRates {
 public:
  explicit ChannelRates(std::span<const Member> members) : members_(members) {}  // must outlive this
  const std::vector<RegionRate>& of(const Channel& channel) {
    auto [rates, first] = rates_.try_emplace(channel);
    if (first) rates->second = region_rates(channel, members_);
    return rates->second;
  }

 private:
  std::span<const Member> members_;
  std::map<Channel, std::vector<RegionRate>> rates_;
};

}  // namespace p2pw
