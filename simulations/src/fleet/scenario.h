// What is simulated: regions and their accesses, machines and their speeds, what is published how often, what dies.
// Rates are bytes of payload per second, times seconds. mbit() takes a rate on the wire and leaves out the headers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace p2pw::fleet {

// 1448 of the 1514 bytes of a full Ethernet frame are payload of TCP.
constexpr double mbit(double wire) { return wire * 1e6 / 8 * 1448 / 1514; }
inline constexpr double kMiB = 1048576, kGiB = 1073741824;

struct RegionSpec {
  std::string name;
  std::size_t nodes = 0;
  double up = 0, down = 0;  // access to the WAN
  double delay = 0;         // one way, to the middle of the WAN
};

// CPU that the daemons of an emulated network share on one machine; the lab's runs are bound by it.
struct SharedCpu {
  double cores = 0;  // 0: machines have their own, and enough of it
  // CPU seconds for each byte of the version: at the publisher, the trainer's daemon, any one node, and the emulated
  // router for each byte that it forwards.
  double seed = 0, trainer = 0, node = 0, router = 0;
};

struct Scenario {
  std::string name, about;
  std::vector<RegionSpec> regions;  // the first is the trainer's
  double trainer_up = 0;            // its own access
  double nic = mbit(25'000);        // of every machine, each way
  double slow_nic_share = 0;        // this share of the nodes has a tenth of it
  double fabric = mbit(400'000);    // of a region's LAN, all nodes together, each 16 nodes
  double lan_delay = 0.0002;        // one way

  double checkpoint_bytes = 0;
  double delta_bytes = 0;       // the mean of the versions
  double delta_spread = 0.15;   // a version's delta is up to this share smaller or larger
  std::size_t versions = 50;
  double interval = 60;         // between publishes

  // Speeds, in bytes of the checkpoint unless said otherwise.
  double encode = 64e9;         // diff, encode, self-check and sealing: 16 threads of the published figure
  double encode_start = 0;      // before the first bundle can close
  double apply = 96e9;          // decode, apply and check in a memory-backed slot: 16 threads
  double hash = 2e9;            // SHA-256 of arriving chunks, bytes of the chunks
  double apply_tail = 0.02;     // the last frame and the seal
  double swarm_efficiency = 0.9;
  double swarm_hop = 0.01;      // what a hop between peers of a swarm adds to a chunk
  SharedCpu cpu;

  double deaths_per_hour = 0;   // share of the nodes
  double rejoin = 90;           // a new machine comes this long after a death
  std::size_t anchor_every = 25;  // an older version's bundles are dropped at the next anchor

  double dollars_per_gb = 0.02;  // between regions; clouds ask 0.01 to 0.09 for each 10^9 bytes
  bool rates_stated = true;      // nodes of an access much slower than others say so

  std::size_t node_count() const;
};

// The chunk size that a publisher would choose, and what version i weighs: the same for every strategy.
double choose_chunk(const Scenario& scenario);
double version_bytes(const Scenario& scenario, std::size_t version);

// Nothing when there is no such scenario.
std::optional<Scenario> find_scenario(std::string_view name);
std::vector<std::string> scenario_names();

}  // namespace p2pw::fleet
