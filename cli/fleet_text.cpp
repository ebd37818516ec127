#include "cli/fleet_text.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "cli/console.h"

namespace p2pw {

std::string name_of(const api::NodeStatus& node) { return node.name.empty() ? node.node.substr(0, 8) : node.name; }
std::string name_of(const api::LinkStatus& link) { return link.name.empty() ? link.node.substr(0, 8) : link.name; }
std::string version_text(std::uint64_t version) { return version == 0 ? "-" : std::to_string(version); }
std::string lag_text(double seconds) { return seconds > 0 ? human_seconds(seconds) : "-"; }

NewestVersions newest_versions(const api::StatusReply& status) {
  NewestVersions newest;
  auto count = [&](const std::string& channel, std::uint64_t version) {
    auto& known = newest[channel];
    known = std::max(known, version);
  };
  for (const api::ChannelStatus& c : status.channels) count(c.channel, c.version_sealed);
  for (const api::NodeStatus& n : status.nodes) count(n.channel, n.version_active);
  return newest;
}

bool needs_attention(const NewestVersions& newest, const api::NodeStatus& node) {
  return !node.why.empty() || node.state == "offline" || node.version_active < newest.at(node.channel);
}

std::vector<const api::NodeStatus*> worst_first(const api::StatusReply& status) {
  std::vector<const api::NodeStatus*> order;
  for (const api::NodeStatus& n : status.nodes) order.push_back(&n);
  const NewestVersions newest = newest_versions(status);
  auto rank = [&](const api::NodeStatus* n) {
    return std::tuple(!needs_attention(newest, *n), -n->lag_seconds, n->channel, n->region, n->name, n->node);
  };
  std::sort(order.begin(), order.end(), [&](const auto* a, const auto* b) { return rank(a) < rank(b); });
  return order;
}

std::vector<RegionSummary> by_region(const api::StatusReply& status) {
  const NewestVersions newest_of = newest_versions(status);
  std::map<std::pair<std::string, std::string>, RegionSummary> sums;
  for (const api::NodeStatus& n : status.nodes) {
    RegionSummary& sum = sums[{n.channel, n.region}];
    sum.channel = n.channel;
    sum.region = n.region;
    const std::uint64_t newest = newest_of.at(n.channel);
    ++sum.nodes;
    bool offline = n.state == "offline";
    sum.offline += offline;
    sum.active += !offline && n.version_active >= newest;
    sum.staged += !offline && n.version_staged >= newest;
    if (offline || n.version_active >= newest) continue;
    if (!sum.slowest || n.lag_seconds > sum.slowest->lag_seconds) sum.slowest = &n;
  }
  std::vector<RegionSummary> out;
  for (auto& [key, sum] : sums) out.push_back(sum);
  return out;
}

}  // namespace p2pw
