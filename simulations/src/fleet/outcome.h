// What a strategy did in a scenario, and what that means for those who run it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "simulations/src/fleet/scenario.h"

namespace p2pw::fleet {

struct NodeTimes {
  std::size_t region = 0;
  // Seconds from the publish of version i to *staged*; negative: not counted (the node was not there).
  std::vector<float> staged_after;
};

struct Outcome {
  std::string strategy;
  std::vector<double> published;  // when each version's publish began
  std::vector<double> bytes;      // of each version
  std::vector<NodeTimes> nodes;
  std::vector<double> into_region;  // payload from other regions, by region
  double trainer_sent = 0;
  double gateway_most = 0;   // payload out of the busiest machine besides the trainer, all versions
  double gateway_mean = 0;   // of all machines that fed others beyond their share
  double control_bytes = 0;  // of all nodes together
  double lost_bytes = 0, lan_join_bytes = 0;
  std::size_t deaths = 0, gateway_changes = 0, delayed_publishes = 0;
  double bytes_moved_per_version = 0;  // deltas and anchors per version, as this strategy ships them
  std::uint64_t events = 0;
};

struct Summary {
  double bound_seconds = 0, last_node_seconds = 0, p95_seconds = 0, median_seconds = 0;
  double cross_region_copies = 0;  // the mean over regions away from the trainer
  double trainer_copies = 0, dollars_per_step = 0;
  double staleness_p50 = 0, staleness_p95 = 0, staleness_p99 = 0, staleness_most = 0;
  struct Region {
    std::string name;
    double last_node_seconds = 0, copies = 0, dollars_per_step = 0;
  };
  std::vector<Region> regions;
};

// Payload of one version / the slowest link on its way + depth x one chunk over that link + one-way delays of the chain.
double bound_seconds(const Scenario& scenario, double bytes);
Summary summarize(const Scenario& scenario, const Outcome& outcome);
std::string to_json(const Scenario& scenario, const Outcome& outcome, const Summary& summary, std::uint64_t seed);

}  // namespace p2pw::fleet
