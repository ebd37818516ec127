#include "daemon/core/staleness.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace p2pw {
namespace {

double quantile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::max<std::size_t>(rank, 1) - 1];
}

}  // namespace

std::vector<api::Staleness> staleness_of(std::span<const NodeLag> nodes) {
  std::map<std::string, std::pair<api::Staleness, std::vector<double>>> channels;
  for (const NodeLag& node : nodes) {
    auto& [out, seconds] = channels[node.channel];
    out.channel = node.channel;
    ++out.nodes;
    if (node.unknown) {
      ++out.unknown;
      continue;
    }
    ++(node.versions == 0 ? out.current : node.versions == 1 ? out.behind_1 : node.versions == 2 ? out.behind_2 : out.behind_more);
    seconds.push_back(node.seconds);
  }
  std::vector<api::Staleness> all;
  for (auto& [name, entry] : channels) {
    auto& [out, seconds] = entry;
    std::sort(seconds.begin(), seconds.end());
    out.seconds_median = quantile(seconds, 0.5);
    out.seconds_p95 = quantile(seconds, 0.95);
    out.seconds_max = quantile(seconds, 1);
    all.push_back(out);
  }
  return all;
}

}  // namespace p2pw
