#include "simulations/src/fleet/baselines.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "simulations/src/fleet/network.h"

namespace p2pw::fleet {
namespace {

constexpr double kNodesPerRelay = 32;
constexpr double kShard = 64 * kMiB;        // what a relay passes on at once
// An open swarm: how much likelier a neighbour is to deliver a piece than a far peer (tit-for-tat favours fast ones), what
// the seed sends before all pieces are out, and how much of the links' rate a swarm with cold connections uses.
constexpr double kLocality = 8, kSeedCopies = 1.3, kSwarmUse = 0.85;
constexpr double kGatewayRestart = 60;      // until somebody has restarted a fixed gateway

// How one version gets to one region, for a version of one byte; times grow with the bytes.
struct Way {
  double copies = 0;         // into the region
  double seconds_per_byte = 0;
  double extra = 0;          // seconds that do not grow
  double gateway_sent = 0;   // by the busiest machine there, copies
};

struct Plan {
  std::vector<Way> ways;  // by region
  double trainer_copies = 0;
};

// Regions with `weight` equal flows each pull one copy per flow out of the trainer at once: seconds until each has it all.
std::vector<double> star(const Scenario& s, const std::vector<double>& weight) {
  Network network;
  auto uplink = network.add_link(s.trainer_up);
  std::vector<Network::Flow> flows;
  std::vector<double> finished(weight.size(), 0);
  for (std::size_t r = 0; r < weight.size(); ++r) {
    // `weight` flows side by side are one flow that loads each link with all of them.
    auto down = network.add_link(r == 0 ? s.nic : s.regions[r].down);
    auto nic = network.add_link(s.nic);
    double w = std::max(weight[r], 1e-9);
    flows.push_back(network.add_flow({{uplink, w}, {down, w}, {nic, 1}}));
    if (weight[r] > 0) network.push(flows[r], r, 1e9);
  }
  std::vector<Network::Done> done;
  double now = 0;
  while (!network.idle()) {
    network.allocate();
    done.clear();
    now += network.finish_next(done);
    for (auto& d : done) finished[d.tag] = now / 1e9;
  }
  return finished;
}

double round_trip(const Scenario& s, std::size_t region) { return 2 * (s.regions[0].delay + s.regions[region].delay); }
double nodes_of(const Scenario& s, std::size_t region) { return static_cast<double>(s.regions[region].nodes); }

// A region's own swarm, or a tree of its nodes: everybody's cable carries each byte about once.
double lan_seconds_per_byte(const Scenario& s, std::size_t region) {
  double fabric = s.fabric * std::ceil(nodes_of(s, region) / 16) / std::max(1.0, nodes_of(s, region) - 1);
  return 1 / std::min(s.nic * s.swarm_efficiency, fabric);
}

// One upload to a store in the trainer's region, then every node gets every byte from there.
Plan object_store(const Scenario& s) {
  Plan plan;
  plan.trainer_copies = 1;
  for (std::size_t r = 0; r < s.regions.size(); ++r) {
    double n = nodes_of(s, r);
    double access = r == 0 ? n * s.nic : s.regions[r].down;
    plan.ways.push_back({n, std::max({1 / s.trainer_up, n / access, 1 / s.nic}), 2 * round_trip(s, r), 0});
  }
  return plan;
}

// Relays, one for 32 nodes, each near its nodes, pull from the trainer and serve shards while more come in.
Plan relay_tree(const Scenario& s) {
  Plan plan;
  std::vector<double> relays;
  for (std::size_t r = 0; r < s.regions.size(); ++r) relays.push_back(std::ceil(nodes_of(s, r) / kNodesPerRelay));
  auto in = star(s, relays);
  for (std::size_t r = 0; r < s.regions.size(); ++r) {
    if (relays[r] == 0) {
      plan.ways.push_back({});
      continue;
    }
    double per_relay = std::max(0.0, nodes_of(s, r) / relays[r] - 1);
    double out = per_relay / s.nic;
    plan.ways.push_back({relays[r], std::max(in[r], out), 2 * round_trip(s, r) + kShard / s.nic, per_relay});
    plan.trainer_copies += relays[r];
  }
  return plan;
}

// The same one machine of each region pulls every version from the trainer; inside, a swarm as good as p2pw's.
Plan fixed_gateway(const Scenario& s) {
  Plan plan;
  std::vector<double> gateways;
  for (const RegionSpec& region : s.regions) gateways.push_back(region.nodes > 0 ? 1 : 0);
  auto in = star(s, gateways);
  for (std::size_t r = 0; r < s.regions.size(); ++r) {
    if (gateways[r] == 0) {
      plan.ways.push_back({});
      continue;
    }
    plan.ways.push_back({1, std::max(in[r], lan_seconds_per_byte(s, r)), round_trip(s, r), 1});
    plan.trainer_copies += 1;
  }
  return plan;
}

// One swarm of all nodes that knows nothing of regions.
Plan open_swarm(const Scenario& s) {
  Plan plan;
  plan.trainer_copies = kSeedCopies;
  double all = static_cast<double>(s.node_count()) + 1, slowest = kSeedCopies / s.trainer_up;
  for (std::size_t r = 0; r < s.regions.size(); ++r) {
    double n = nodes_of(s, r), outside = all - n;
    double share = n > 0 ? outside / (outside + kLocality * (n - 1)) : 0;
    double copies = n > 0 ? std::max(1.0, n * share) : 0;
    double access = std::min(s.regions[r].down, s.regions[r].up);
    double seconds = std::max({slowest, r == 0 ? 0 : copies / access, 1 / s.nic}) / kSwarmUse;
    double far = 0;
    for (const RegionSpec& region : s.regions) far = std::max(far, region.delay);
    double spread = std::log2(all) * (2 * (far + s.regions[r].delay) + choose_chunk(s) / s.nic);
    plan.ways.push_back({copies, seconds, spread, copies});
  }
  return plan;
}

Plan plan_of(const Scenario& s, std::string_view strategy) {
  if (strategy == "object-store") return object_store(s);
  if (strategy == "relay-tree") return relay_tree(s);
  if (strategy == "fixed-gateway") return fixed_gateway(s);
  return open_swarm(s);
}

}  // namespace

std::vector<std::string> strategy_names() {
  return {"object-store", "relay-tree", "fixed-gateway", "open-swarm", "p2pw"};
}

OwnBytes own_bytes(const Scenario& s, std::string_view strategy) {
  if (strategy == "p2pw") return {s.delta_bytes, 0, 0};  // anchors after the first are never pushed
  // The published example: 1.98 % of the bytes a step, a whole checkpoint every 25. A relay tree as published ships whole
  // checkpoints.
  if (strategy == "relay-tree") return {s.checkpoint_bytes, 0, 0};
  return {s.checkpoint_bytes * 20.3 / 1024, s.checkpoint_bytes, 25};
}

Outcome run_baseline(const Scenario& s, std::string_view strategy, std::uint64_t seed, bool own) {
  std::mt19937_64 random(seed);
  Plan plan = plan_of(s, strategy);
  OwnBytes ships = own ? own_bytes(s, strategy) : OwnBytes{s.delta_bytes, 0, 0};
  Outcome o;
  o.strategy = strategy;
  o.into_region.assign(s.regions.size(), 0);
  for (std::size_t r = 0; r < s.regions.size(); ++r) {
    for (std::size_t i = 0; i < s.regions[r].nodes; ++i) o.nodes.push_back({r, {}});
  }
  std::vector<double> staged_at(o.nodes.size(), 0), alive_from(o.nodes.size(), 0);
  std::vector<double> nic(o.nodes.size(), s.nic);
  for (double& n : nic) {
    if (std::uniform_real_distribution<>(0, 1)(random) < s.slow_nic_share) n /= 10;
  }
  std::vector<double> busy(s.regions.size(), 0);  // until when the region still moves the last version
  double death_rate = s.deaths_per_hour / 3600, moved = 0;
  for (std::size_t v = 0; v < s.versions; ++v) {
    double begun = 0.5 + s.interval * static_cast<double>(v);
    double share = version_bytes(s, v) / s.delta_bytes;
    double bytes = ships.delta * share;
    bool anchor = ships.anchor_every && (v + 1) % ships.anchor_every == 0;
    if (anchor) bytes += ships.anchor;
    moved += bytes;
    o.published.push_back(begun);
    o.bytes.push_back(version_bytes(s, v));
    o.trainer_sent += bytes * plan.trainer_copies;
    double encode = s.encode_start + s.checkpoint_bytes / s.encode;
    std::vector<double> arrived(s.regions.size(), 0), start(s.regions.size(), 0);
    for (std::size_t r = 0; r < s.regions.size(); ++r) {
      const Way& way = plan.ways[r];
      if (r != 0) o.into_region[r] += bytes * way.copies;
      start[r] = std::max(begun, busy[r]);
      double transfer = bytes * way.seconds_per_byte;
      if (s.cpu.cores > 0) {
        double cpu = s.cpu.seed + s.cpu.trainer + s.cpu.node * static_cast<double>(s.node_count());
        transfer = std::max(transfer, bytes * cpu / s.cpu.cores);
      }
      arrived[r] = std::max(start[r] + transfer, begun + encode) + way.extra;
      bool fails = strategy == "fixed-gateway" && s.regions[r].nodes > 0 &&
                   std::uniform_real_distribution<>(0, 1)(random) < death_rate * transfer;
      if (fails) {
        arrived[r] += kGatewayRestart + transfer;
        if (r != 0) o.into_region[r] += bytes / 2;
        ++o.gateway_changes;
      }
      busy[r] = arrived[r];
    }
    for (std::size_t i = 0; i < o.nodes.size(); ++i) {
      std::size_t r = o.nodes[i].region;
      if (std::uniform_real_distribution<>(0, 1)(random) < death_rate * s.interval) {
        // Its successor begins with a whole checkpoint, out of the store; with the others a neighbour is taken to have it.
        ++o.deaths;
        alive_from[i] = begun + s.rejoin;
        if (r != 0 && strategy == "object-store") o.into_region[r] += s.checkpoint_bytes * 0.66;
      }
      bool counts = alive_from[i] <= begun;
      double all_here = std::max(arrived[r], start[r] + bytes / nic[i]);
      double staged = std::max(all_here, std::max(start[r], staged_at[i]) + s.checkpoint_bytes / s.apply) + s.apply_tail;
      staged_at[i] = staged;
      o.nodes[i].staged_after.push_back(counts ? static_cast<float>(staged - begun) : -1.0f);
    }
  }
  double most = 0, sum = 0;
  std::size_t carriers = 0;
  for (const Way& way : plan.ways) {
    most = std::max(most, way.gateway_sent);
    if (way.gateway_sent > 0) sum += way.gateway_sent, ++carriers;
  }
  o.gateway_most = most * moved;
  o.gateway_mean = carriers ? sum / static_cast<double>(carriers) * moved : 0;
  o.bytes_moved_per_version = moved / static_cast<double>(s.versions);
  return o;
}

}  // namespace p2pw::fleet
