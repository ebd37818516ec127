#include "simulations/src/fleet/outcome.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "chunker/bundle_builder.h"

namespace p2pw::fleet {
namespace {

double quantile(std::vector<float>& values, double q) {
  if (values.empty()) return 0;
  auto at = static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size() - 1) + 0.5);
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<std::size_t>(at)];
}

// How long what a node serves has been out of date: 0 while it serves the newest version, else the time since the next one
// was published. While a node waits for version v that rises evenly up to the moment when v is staged. Kept as those rises,
// over all nodes.
class Staleness {
 public:
  explicit Staleness(const Outcome& outcome) {
    for (const NodeTimes& node : outcome.nodes) add(outcome, node);
  }
  double most() const {
    double most = 0;
    for (const Rise& rise : rises_) most = std::max<double>(most, rise.to);
    return most;
  }
  double quantile(double q) const {
    double low = 0, high = most();
    for (int i = 0; i < 40; ++i) {
      double middle = (low + high) / 2;
      (share_above(middle) > 1 - q ? low : high) = middle;
    }
    return high;
  }

 private:
  struct Rise {
    float from, to;
  };
  void add(const Outcome& outcome, const NodeTimes& node) {
    std::size_t versions = outcome.published.size();
    double staged = 0;  // when the version before was
    for (std::size_t v = 0; v < versions; ++v) {
      if (node.staged_after[v] < 0) continue;
      double published = outcome.published[v];
      double from = std::max(0.0, staged - published);
      staged = published + node.staged_after[v];
      double next = v + 1 < versions ? outcome.published[v + 1] : staged;
      total_ += std::max(0.0, next - published);
      if (node.staged_after[v] > from) rises_.push_back({static_cast<float>(from), node.staged_after[v]});
    }
  }
  double share_above(double age) const {
    double above = 0;
    for (const Rise& rise : rises_) above += std::max(0.0, rise.to - std::max<double>(rise.from, age));
    return total_ > 0 ? std::min(1.0, above / total_) : 0;
  }
  std::vector<Rise> rises_;
  double total_ = 0;
};

}  // namespace

double bound_seconds(const Scenario& s, double bytes) {
  double slowest = s.trainer_up, delays = 0;
  std::size_t depth = 0;
  std::vector<double> hops;
  for (std::size_t r = 1; r < s.regions.size(); ++r) {
    if (s.regions[r].nodes == 0) continue;
    slowest = std::min({slowest, s.regions[r].down, s.nic});
    hops.push_back(s.regions[r].delay);
    ++depth;
  }
  // From the trainer to one region, and from each to the next: every inner region's access is passed in and out.
  std::sort(hops.begin(), hops.end());
  for (std::size_t i = 0; i < hops.size(); ++i) delays += hops[i] * (i + 1 < hops.size() ? 2 : 1);
  double chunk = choose_chunk_bytes(static_cast<std::uint64_t>(s.delta_bytes));
  return bytes / slowest + static_cast<double>(depth) * chunk / slowest + delays + s.regions.front().delay;
}

Summary summarize(const Scenario& s, const Outcome& o) {
  Summary out;
  std::vector<float> all;
  std::vector<double> last(s.regions.size(), 0);
  double largest = 0, bytes = 0;
  for (double b : o.bytes) largest = std::max(largest, b), bytes += b;
  for (const NodeTimes& node : o.nodes) {
    for (float t : node.staged_after) {
      if (t < 0) continue;
      all.push_back(t);
      last[node.region] = std::max<double>(last[node.region], t);
    }
  }
  out.bound_seconds = bound_seconds(s, largest);
  out.last_node_seconds = *std::max_element(last.begin(), last.end());
  out.p95_seconds = quantile(all, 0.95);
  out.median_seconds = quantile(all, 0.5);
  double versions = static_cast<double>(o.bytes.size());
  // What was moved, against the mean size of one version: anchors that are pushed count as further copies.
  std::size_t away = 0;
  for (std::size_t r = 0; r < s.regions.size(); ++r) {
    if (s.regions[r].nodes == 0) continue;
    double dollars = o.into_region[r] / 1e9 * s.dollars_per_gb / versions;
    out.regions.push_back({s.regions[r].name, last[r], o.into_region[r] / bytes, dollars});
    out.dollars_per_step += dollars;
    if (r == 0) continue;
    out.cross_region_copies += o.into_region[r] / bytes;
    ++away;
  }
  if (away > 0) out.cross_region_copies /= static_cast<double>(away);
  out.trainer_copies = o.trainer_sent / bytes;
  Staleness staleness(o);
  out.staleness_p50 = staleness.quantile(0.5);
  out.staleness_p95 = staleness.quantile(0.95);
  out.staleness_p99 = staleness.quantile(0.99);
  out.staleness_most = staleness.most();
  return out;
}

std::string to_json(const Scenario& s, const Outcome& o, const Summary& sum, std::uint64_t seed) {
  auto round = [](double v) { return std::round(v * 1e4) / 1e4; };
  nlohmann::ordered_json j;
  double versions = static_cast<double>(o.bytes.size());
  j["scenario"] = s.name;
  j["strategy"] = o.strategy;
  j["seed"] = seed;
  j["nodes"] = s.node_count();
  j["regions"] = sum.regions.size();
  j["versions"] = o.bytes.size();
  j["bytes_per_version"] = std::round(o.bytes_moved_per_version);
  j["bound_seconds"] = round(sum.bound_seconds);
  j["last_node_seconds"] = round(sum.last_node_seconds);
  j["p95_seconds"] = round(sum.p95_seconds);
  j["median_seconds"] = round(sum.median_seconds);
  j["cross_region_copies"] = round(sum.cross_region_copies);
  j["trainer_copies"] = round(sum.trainer_copies);
  j["dollars_per_step"] = round(sum.dollars_per_step);
  j["staleness_seconds"] = {{"p50", round(sum.staleness_p50)},
                            {"p95", round(sum.staleness_p95)},
                            {"p99", round(sum.staleness_p99)},
                            {"most", round(sum.staleness_most)}};
  j["trainer_bytes_per_step"] = std::round(o.trainer_sent / versions);
  j["gateway_bytes_per_step"] = {{"most", std::round(o.gateway_most / versions)}, {"mean", std::round(o.gateway_mean / versions)}};
  j["control_bytes_per_node_and_step"] = std::round(o.control_bytes / versions / static_cast<double>(s.node_count()));
  j["lost_bytes"] = std::round(o.lost_bytes);
  j["join_bytes"] = std::round(o.lan_join_bytes);
  j["deaths"] = o.deaths;
  j["gateway_changes"] = o.gateway_changes;
  j["delayed_publishes"] = o.delayed_publishes;
  auto& regions = j["by_region"] = nlohmann::ordered_json::object();
  for (const Summary::Region& r : sum.regions) {
    regions[r.name] = {{"last_node_seconds", round(r.last_node_seconds)},
                       {"copies", round(r.copies)},
                       {"dollars_per_step", round(r.dollars_per_step)}};
  }
  return j.dump();
}

}  // namespace p2pw::fleet
