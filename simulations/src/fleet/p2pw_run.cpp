#include "simulations/src/fleet/p2pw_run.h"

#include <algorithm>
#include <cmath>

namespace p2pw::fleet {

namespace {
constexpr double kTick = 0.1;
constexpr double kMaxStep = 0.01;
}  // namespace

P2pwRun::P2pwRun(const Scenario& scenario, std::uint64_t seed)
    : scenario_(scenario), random_(seed), channel_(Channel::parse("policy").value()) {
  outcome_.strategy = "p2pw";
  build_fleet();
}

void P2pwRun::build_fleet() {
  const Scenario& s = scenario_;
  double slowest_chunk = 1;
  double chunk = choose_chunk(s);
  if (s.cpu.cores > 0) cpu_ = network_.add_link(s.cpu.cores);
  for (const RegionSpec& spec : s.regions) {
    Region region;
    region.name = spec.name;
    region.up = network_.add_link(spec.up);
    region.down = network_.add_link(spec.down);
    double n = static_cast<double>(std::max<std::size_t>(spec.nodes, 1));
    region.fabric = network_.add_link(s.fabric * std::ceil(n / 16));
    region.swarm_in = network_.add_link(s.nic * s.swarm_efficiency);
    regions_.push_back(std::move(region));
    slowest_chunk = std::min(slowest_chunk, chunk / std::max(spec.up, spec.down));
  }
  // Short against a chunk on the fastest access, so that waiting for the next step is little on each hop.
  step_ = std::clamp(slowest_chunk / 2, 0.0005, kMaxStep);
  add_host(0, true);
  for (std::size_t r = 0; r < s.regions.size(); ++r) {
    for (std::size_t i = 0; i < s.regions[r].nodes; ++i) add_host(r, false);
  }
  std::sort(members_.begin(), members_.end(), [](auto& a, auto& b) { return a.key < b.key; });
  refresh_candidates();
  outcome_.into_region.assign(s.regions.size(), 0);
}

std::size_t P2pwRun::add_host(std::size_t region, bool trainer) {
  Host host;
  std::uint64_t words[4];
  for (auto& word : words) word = random_();
  std::memcpy(host.key.data.data(), words, sizeof words);
  host.region = region;
  host.trainer = trainer;
  host.nic = scenario_.nic;
  bool slow = std::uniform_real_distribution<>(0, 1)(random_) < scenario_.slow_nic_share;
  if (slow && !trainer) host.nic /= 10;
  host.joined = clock_.seconds();
  Member member;
  member.key = host.key;
  member.region = p2pw::Region::parse(regions_[region].name).value();
  member.trainer = trainer;
  const RegionSpec& spec = scenario_.regions[region];
  if (scenario_.rates_stated) member.wan_mbit = static_cast<std::uint32_t>(spec.up / mbit(1) + 0.5);
  std::size_t index = hosts_.size();
  if (!trainer) {
    host.row = outcome_.nodes.size();
    outcome_.nodes.push_back({region, {}});
    regions_[region].hosts.push_back(index);
    ++regions_[region].live;
  }
  hosts_.push_back(host);
  agents_.emplace_back();
  host_of_[host.key] = index;
  members_.push_back(std::move(member));
  if (trainer) ensure_agent(index);
  return index;
}

void P2pwRun::wire_up(Host& host) {
  if (host.wired) return;
  const Region& region = regions_[host.region];
  host.wired = true;
  host.nic_up = network_.add_link(host.trainer ? scenario_.trainer_up : host.nic);
  host.nic_down = network_.add_link(host.nic);
  double others = static_cast<double>(std::max<std::size_t>(region.live, 2) - 1);
  // A byte from here reaches everybody, mostly from peer to peer: one copy leaves this machine, one crosses every cable.
  std::vector<Network::Load> path{{host.nic_up}, {region.fabric, others}, {region.swarm_in}};
  if (cpu_) path.push_back({*cpu_, scenario_.cpu.node * static_cast<double>(region.live)});
  host.swarm = network_.add_flow(std::move(path));
  flow_from_.resize(host.swarm + 1);
  flow_from_[host.swarm] = static_cast<std::size_t>(&host - hosts_.data());
}

Agent& P2pwRun::ensure_agent(std::size_t index) {
  auto& agent = agents_[index];
  if (agent) return *agent;
  wire_up(hosts_[index]);
  agent = std::make_unique<Agent>(*this, index);
  active_agents_.push_back(index);
  for (std::uint32_t b : known_) learn(*agent, b, false);
  return *agent;
}

void P2pwRun::refresh_candidates() {
  for (std::size_t r = 0; r < regions_.size(); ++r) {
    auto name = p2pw::Region::parse(regions_[r].name).value();
    regions_[r].candidates = gateway_candidates(channel_, name, members_, options_.candidates);
    for (const NodeKey& key : regions_[r].candidates) ensure_agent(host_of_.at(key));
  }
}

void P2pwRun::learn(Agent& agent, std::uint32_t b, bool fresh) {
  const Bundle& bundle = bundles_[b];
  if (agent.spread.knows(bundle.facts.id)) return;
  const Host& host = hosts_[agent.host()];
  ChunkSet held = host.trainer ? ChunkSet(bundle.facts.chunks, true) : bundle.regions[host.region].spread;
  agent.spread.add(bundle.facts, held, fresh);
}

double P2pwRun::one_way(const Host& a, const Host& b) const {
  if (a.region == b.region) return scenario_.lan_delay;
  return scenario_.regions[a.region].delay + scenario_.regions[b.region].delay;
}

Network::Flow P2pwRun::flow_between(std::size_t from, std::size_t to) {
  std::uint64_t key = std::uint64_t(from) << 32 | to;
  auto it = flows_.find(key);
  if (it != flows_.end()) return it->second;
  wire_up(hosts_[from]);
  wire_up(hosts_[to]);
  const Host &a = hosts_[from], &b = hosts_[to];
  std::vector<Network::Load> path{{a.nic_up}, {b.nic_down}};
  if (a.region == b.region) {
    path.push_back({regions_[a.region].fabric});
  } else {
    if (!a.trainer) path.push_back({regions_[a.region].up});
    path.push_back({regions_[b.region].down});
  }
  const SharedCpu& cpu = scenario_.cpu;
  if (cpu_) path.push_back({*cpu_, cpu.router + (a.trainer ? cpu.seed + cpu.trainer : 0)});
  Network::Flow flow = network_.add_flow(std::move(path));
  flow_from_.resize(flow + 1);
  flow_from_[flow] = from;
  return flows_[key] = flow;
}

void P2pwRun::wake_network() {
  if (stepping_ || network_.idle()) return;
  stepping_ = true;
  clock_.after(0, [this] { network_step(); });
}

void P2pwRun::network_step() {
  stepping_ = false;
  if (network_.idle()) return;
  moved_.clear();
  network_.step(step_, moved_);
  double now = clock_.seconds();
  for (const Network::Done& done : moved_) {
    auto tag = static_cast<std::uint32_t>(done.tag);
    std::size_t from = flow_from_[done.flow];
    Packet packet = packets_[tag];
    free_packets_.push_back(tag);
    if (packet.to == from) {
      clock_.at(at_seconds(now + done.at), [this, packet, from] { swarm_moved(packet, from); });
    } else {
      count_chunk(packet, from);
      const BundleFacts& facts = bundles_[packet.bundle].facts;
      double later = one_way(hosts_[from], hosts_[packet.to]) + facts.bytes_of(ChunkIndex(packet.chunk)) / scenario_.hash;
      clock_.at(at_seconds(now + done.at + later), [this, packet, from] { chunk_arrived(packet, from); });
    }
  }
  stepping_ = true;
  clock_.after(step_, [this] { network_step(); });
}

void P2pwRun::count_chunk(const Packet& packet, std::size_t from) {
  double bytes = bundles_[packet.bundle].facts.bytes_of(ChunkIndex(packet.chunk));
  Host &a = hosts_[from], &b = hosts_[packet.to];
  a.sent += bytes;
  if (a.region != b.region) outcome_.into_region[b.region] += bytes;
  if (a.trainer && a.region != b.region) outcome_.trainer_sent += bytes;
  if (!b.alive) outcome_.lost_bytes += bytes;
}

void P2pwRun::chunk_arrived(const Packet& packet, std::size_t from) {
  Host& to = hosts_[packet.to];
  const BundleId& id = bundles_[packet.bundle].facts.id;
  if (!to.alive || !agents_[packet.to] || !bundle_of_.contains(id)) return;
  Spread& spread = agents_[packet.to]->spread;
  ChunkIndex chunk(packet.chunk);
  Epoch epoch(packet.epoch);
  const NodeKey& sender = hosts_[from].key;
  if (!spread.take_link_chunk(sender, id, chunk, epoch)) return;
  spread.link_chunk_stored(sender, id, chunk, epoch);
  // Into the swarm, to everybody else here.
  std::uint32_t tag = static_cast<std::uint32_t>(packets_.size());
  if (free_packets_.empty()) {
    packets_.emplace_back();
  } else {
    tag = free_packets_.back();
    free_packets_.pop_back();
  }
  packets_[tag] = {packet.bundle, packet.chunk, 0, packet.to};
  network_.push(to.swarm, tag, bundles_[packet.bundle].facts.bytes_of(chunk));
  wake_network();
}

void P2pwRun::swarm_moved(const Packet& packet, std::size_t from) {
  Host& host = hosts_[from];
  Bundle& bundle = bundles_[packet.bundle];
  host.sent += bundle.facts.bytes_of(ChunkIndex(packet.chunk));
  if (!host.alive || !bundle_of_.contains(bundle.facts.id)) return;
  if (agents_[from]) agents_[from]->spread.handed_on(bundle.facts.id, ChunkIndex(packet.chunk));
  RegionBundle& here = bundle.regions[host.region];
  if (here.done || here.spread.has(ChunkIndex(packet.chunk))) return;
  if (here.spread.none()) here.first = clock_.now();
  here.spread.add(ChunkIndex(packet.chunk));
  here.last = clock_.now();
  if (here.spread.full()) bundle_in_region(bundle, host.region);
}

// The swarm's chunks reach the other candidates in one go: what they hold matters to nobody before the bundle is
// complete or somebody is lost.
void P2pwRun::bundle_in_region(Bundle& bundle, std::size_t region) {
  RegionBundle& here = bundle.regions[region];
  here.done = true;
  for (std::size_t index : active_agents_) {
    if (hosts_[index].region != region || !hosts_[index].alive || hosts_[index].trainer) continue;
    Spread& spread = agents_[index]->spread;
    const ChunkSet* held = spread.held(bundle.facts.id);
    if (!held) continue;
    ChunkSet missing = held->complement();
    for (auto c = missing.first(); c; c = missing.first(c->value() + 1)) spread.swarm_chunk(bundle.facts.id, *c);
  }
  VersionRun& version = versions_[bundle.version];
  double n = static_cast<double>(std::max<std::size_t>(regions_[region].live, 2));
  double hops = std::ceil(std::log(n) / std::log(4.0));
  double chunk_time = bundle.facts.chunk_bytes / scenario_.nic;
  double lag = hops * (scenario_.swarm_hop + chunk_time + 2 * scenario_.lan_delay);
  double first = to_seconds(here.first) + lag, last = to_seconds(here.last) + lag;
  double& v_first = version.first[region];
  v_first = version.done[region] == 0 ? first : std::min(v_first, first);
  version.last[region] = std::max(version.last[region], last);
  ++version.done[region];
  maybe_staged(bundle.version, region);
}

void P2pwRun::flush_swarm(std::size_t region) {
  for (std::uint32_t b : known_) {
    Bundle& bundle = bundles_[b];
    const RegionBundle& here = bundle.regions[region];
    if (here.done || here.spread.none()) continue;
    for (std::size_t index : active_agents_) {
      if (hosts_[index].region != region || !hosts_[index].alive || hosts_[index].trainer) continue;
      Spread& spread = agents_[index]->spread;
      const ChunkSet* held = spread.held(bundle.facts.id);
      if (!held) continue;
      ChunkSet news = here.spread;
      news -= *held;
      for (auto c = news.first(); c; c = news.first(c->value() + 1)) spread.swarm_chunk(bundle.facts.id, *c);
    }
  }
}

void P2pwRun::keep_ticking() {
  if (ticking_) return;
  ticking_ = true;
  clock_.after(kTick, [this] {
    ticking_ = false;
    if (unfinished_ == 0) return;  // nothing is on its way: a tick would change nothing
    for (std::size_t i = 0; i < active_agents_.size(); ++i) {
      std::size_t index = active_agents_[i];
      if (hosts_[index].alive) agents_[index]->spread.tick();
    }
    keep_ticking();
  });
}

void P2pwRun::count_control(const Host&, std::size_t bytes) { outcome_.control_bytes += static_cast<double>(bytes); }

Outcome P2pwRun::run() {
  plan_deaths();
  versions_.resize(scenario_.versions);
  clock_.after(0.5, [this] { try_publish(0); });
  while (!clock_.empty()) {
    clock_.step();
    if (versions_.back().complete) break;
  }
  return finish();
}

Outcome P2pwRun::finish() {
  double sum = 0;
  std::size_t carriers = 0;
  for (const Host& host : hosts_) {
    if (host.trainer || host.sent == 0) continue;
    outcome_.gateway_most = std::max(outcome_.gateway_most, host.sent);
    sum += host.sent;
    ++carriers;
  }
  outcome_.gateway_mean = carriers ? sum / static_cast<double>(carriers) : 0;
  for (std::size_t index : active_agents_) {
    for (auto& [region, counters] : agents_[index]->spread.feeds().counters()) {
      outcome_.gateway_changes += counters.gateway_changes;
    }
  }
  double bytes = 0;
  for (const VersionRun& version : versions_) {
    outcome_.published.push_back(version.begun);
    outcome_.bytes.push_back(version.bytes);
    bytes += version.bytes;
  }
  outcome_.bytes_moved_per_version = bytes / static_cast<double>(versions_.size());
  for (NodeTimes& node : outcome_.nodes) node.staged_after.resize(versions_.size(), -1);
  outcome_.events = clock_.events();
  return std::move(outcome_);
}

}  // namespace p2pw::fleet
