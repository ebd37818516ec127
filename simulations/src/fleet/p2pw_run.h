// The p2pw strategy: the daemon's own Spread, placement, leases, bundle sizes and publish gate on a virtual clock.
//
// The trainer and every gateway candidate run the real code on real chunks. All other nodes of a region are one fluid: the
// swarm of a region hands a chunk to everybody in it at the rate that a swarm can, some hops later; how each machine's own
// cable and codec go on from there is worked out for each node. Candidates follow from the members, so when one dies its
// successor starts to run the real code with what the swarm gave it.
#pragma once

#include <memory>
#include <random>
#include <unordered_map>

#include "daemon/core/fleet_states.h"
#include "daemon/spread/spread.h"
#include "simulations/src/fleet/clock.h"
#include "simulations/src/fleet/network.h"
#include "simulations/src/fleet/outcome.h"

namespace p2pw::fleet {

class P2pwRun;

struct Host {
  NodeKey key;
  std::size_t region = 0;
  bool alive = true, trainer = false;
  double nic = 0;
  double joined = 0;      // holds the newest version from then on
  double staged_at = 0;   // its last version, for the order of its work
  double sent = 0;        // payload out of its cable: relays and swarm
  std::size_t row = 0;    // in the outcome
  Network::Link nic_up = 0, nic_down = 0;
  Network::Flow swarm = 0;
  bool wired = false;     // its links and flow exist
};

// One host's view of the world, for its Spread.
class Agent : public SpreadWorld {
 public:
  Agent(P2pwRun& run, std::size_t host);

  SteadyTime now() const override;
  const Member& self() const override { return self_; }
  const std::vector<Member>& members() const override;
  bool linked(const NodeKey& peer) const override;
  std::chrono::microseconds round_trip(const NodeKey& peer) const override;
  void send(const NodeKey& peer, const wire::LinkMessage& message) override;
  void introduce(const NodeKey& peer, const BundleId& bundle) override;
  bool send_chunk(const NodeKey& peer, const BundleId& bundle, ChunkIndex chunk, Epoch epoch) override;
  bool unwanted(const BundleId&) const override { return false; }
  void cut_queue(const NodeKey& peer, const BundleId& bundle) override;
  void note(const BundleId&, const std::string&, const std::string&) override {}

  std::size_t host() const { return host_; }

 private:
  void answer_for_fluid(std::uint32_t bundle);

  P2pwRun& run_;
  std::size_t host_;
  Member self_;
  std::map<std::uint32_t, std::vector<std::size_t>> asked_;  // by bundle: nodes of the fluid that will answer

 public:
  Spread spread;  // after what it sees
};

class P2pwRun {
 public:
  P2pwRun(const Scenario& scenario, std::uint64_t seed);
  Outcome run();

  // For tests: the gateway of the first unfinished bundle of a region dies then.
  void kill_gateway_at(double seconds, std::size_t region);

 private:
  friend class Agent;
  struct RegionBundle {
    ChunkSet spread;  // what the region's nodes have
    SteadyTime first{}, last{};
    bool done = false;
  };
  struct Bundle {
    BundleFacts facts;
    std::size_t version = 0;
    std::vector<RegionBundle> regions;
  };
  struct VersionRun {
    double begun = 0, bytes = 0;
    double sealed = -1;
    std::size_t bundles = 0;                 // all of them, once sealed
    std::vector<std::size_t> done;           // bundles complete, by region
    std::vector<double> first, last;         // arrival in the region's swarm
    std::vector<bool> region_done;
    bool complete = false;
  };
  struct Region {
    std::string name;
    Network::Link up, down, fabric, swarm_in;
    std::vector<std::size_t> hosts;
    std::vector<NodeKey> candidates;
    std::size_t live = 0;
  };
  struct Packet {  // what a flow's tag stands for
    std::uint32_t bundle, chunk, epoch;
    std::uint32_t to;  // host; the sender itself for its swarm
  };

  void build_fleet();
  std::size_t add_host(std::size_t region, bool trainer);
  void wire_up(Host& host);
  void members_changed(const std::vector<NodeKey>& lost, const std::vector<NodeKey>& back);
  void refresh_candidates();
  Agent& ensure_agent(std::size_t host);
  void learn(Agent& agent, std::uint32_t bundle, bool fresh);
  double one_way(const Host& a, const Host& b) const;
  Network::Flow flow_between(std::size_t from, std::size_t to);
  double region_rate(const Region& region) const;

  // Publishing.
  void try_publish(std::size_t version);
  bool gate_open(std::size_t version) const;
  void close_bundle(std::size_t version, std::uint32_t index, std::uint64_t bytes, std::uint32_t chunk_bytes);
  void seal(std::size_t version);
  void drop_older(std::size_t version);

  // Moving.
  void wake_network();
  void network_step();
  void chunk_moved(const Packet& packet, std::size_t from);
  void chunk_arrived(const Packet& packet, std::size_t from);
  void swarm_moved(const Packet& packet, std::size_t from);
  void bundle_in_region(Bundle& bundle, std::size_t region);
  void maybe_staged(std::size_t version, std::size_t region);
  void flush_swarm(std::size_t region);
  void keep_ticking();

  // Dying and joining.
  void plan_deaths();
  void kill(std::size_t host, bool silent);
  void join(std::size_t region);

  void count_control(const Host& from, std::size_t bytes);
  void count_chunk(const Packet& packet, std::size_t from);
  Outcome finish();

  const Scenario scenario_;
  std::mt19937_64 random_;
  Clock clock_;
  Network network_;
  SpreadOptions options_;
  Channel channel_;
  std::vector<Region> regions_;
  std::vector<Host> hosts_;
  std::unordered_map<NodeKey, std::size_t> host_of_;
  std::vector<Member> members_;
  std::vector<std::unique_ptr<Agent>> agents_;  // by host, null for most
  std::vector<std::size_t> active_agents_;
  std::vector<Bundle> bundles_;
  std::unordered_map<BundleId, std::uint32_t> bundle_of_;
  std::vector<std::uint32_t> known_;  // bundles not dropped yet
  std::vector<VersionRun> versions_;
  FleetStates states_;
  std::unordered_map<std::uint64_t, Network::Flow> flows_;
  std::vector<std::size_t> flow_from_;
  std::vector<Packet> packets_;
  std::vector<std::uint32_t> free_packets_;
  std::vector<Network::Done> moved_;
  std::optional<Network::Link> cpu_;
  double step_ = 0.005;
  bool stepping_ = false, ticking_ = false;
  std::size_t unfinished_ = 0;  // versions published and not complete everywhere
  std::uint64_t next_key_ = 1, next_id_ = 1;
  Outcome outcome_;
};

}  // namespace p2pw::fleet
