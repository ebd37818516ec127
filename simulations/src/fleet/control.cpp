#include "simulations/src/fleet/control.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "daemon/core/link_plan.h"
#include "protocol/links.pb.h"
#include "protocol/membership.h"

namespace p2pw::fleet {
namespace {

constexpr double kEnvelope = 8 + 29 + 66;  // framing, TLS, TCP, IP and Ethernet
constexpr double kAck = 66;                // of TCP
constexpr double kRecord = 420;            // a signed record
constexpr double kStatesPerVersion = 5;    // fetching, rebuilding, staged, activating, idle

struct Fleet {
  std::vector<MemberInfo> infos;
  std::vector<Member> members;
  std::size_t regions = 0;
  const Member* node = nullptr;
  const Member* candidate = nullptr;
  const Member* bootstrap = nullptr;
  const Member* trainer = nullptr;
};

MemberInfo make_info(std::size_t i, std::size_t region, std::mt19937_64& random) {
  MemberInfo info;
  std::uint64_t words[4];
  for (auto& word : words) word = random();
  std::memcpy(info.member.key.data.data(), words, sizeof words);
  info.member.region = Region::parse("region-" + std::to_string(region)).value();
  info.incarnation = 1'790'000'000'000 + i;
  info.endpoints = {Endpoint{"10.20.30.40", 7733}};
  info.swarm = Endpoint{"10.20.30.40", 7734};
  info.member.follows = Follows({Channel::parse("policy").value()});
  info.software = "0.1.0";
  info.name = "rollout-" + std::to_string(i);
  return info;
}

Fleet make_fleet(const ControlSetting& setting, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Fleet fleet;
  fleet.regions = std::clamp<std::size_t>((setting.nodes + setting.per_region - 1) / setting.per_region, 2, setting.most_regions);
  for (std::size_t i = 0; i <= setting.nodes; ++i) {
    MemberInfo info = make_info(i, i == 0 ? 0 : i % fleet.regions, random);
    info.member.trainer = i == 0;
    info.member.bootstrap = i <= fleet.regions;  // one for each region, and the trainer
    fleet.infos.push_back(std::move(info));
  }
  for (const MemberInfo& info : fleet.infos) fleet.members.push_back(info.member);
  std::sort(fleet.members.begin(), fleet.members.end(), [](auto& a, auto& b) { return a.key < b.key; });
  Region region = fleet.infos[1].member.region;
  auto candidates = gateway_candidates(Channel::parse("policy").value(), region, fleet.members);
  for (const Member& m : fleet.members) {
    if (m.trainer) fleet.trainer = &m;
    if (m.region != region || m.trainer) continue;
    bool chosen = std::find(candidates.begin(), candidates.end(), m.key) != candidates.end();
    if (m.bootstrap) fleet.bootstrap = &m;
    else if (chosen) fleet.candidate = &m;
    else fleet.node = &m;
  }
  return fleet;
}

double weigh(const wire::LinkMessage& message) { return static_cast<double>(message.ByteSizeLong()) + kEnvelope + kAck; }

double weigh_heartbeat() {
  wire::LinkMessage m;
  std::uint64_t now = 1'790'000'000'000'000;
  m.mutable_heartbeat()->set_sent_us(now);
  m.mutable_heartbeat()->set_echo_us(now);
  m.mutable_heartbeat()->set_echo_received_us(now);
  m.mutable_heartbeat()->set_rate_bits(200'000'000);
  m.mutable_heartbeat()->set_stripes(4);
  return weigh(m);
}

double weigh_member(const MemberInfo& info) {
  wire::LinkMessage m;
  write_member({info, Life::suspect}, *m.mutable_members()->add_entries());
  return weigh(m);
}

wire::NodeState state_of(const MemberInfo& info) {
  wire::NodeState state;
  state.set_node(std::string(info.member.key.text()));
  state.set_channel("policy");
  state.set_region(info.member.region.str());
  state.set_version_staged(1000);
  state.set_version_active(1000);
  state.set_state("rebuilding");
  state.set_at_ms(1'790'000'000'000);
  state.set_name(info.name);
  return state;
}

// Bytes of a message, or messages per second.
struct Rates {
  double heartbeat, member_change, state_own, state_more, changes, states, records, leases;
};

RoleCosts cost(const Fleet& fleet, const ControlSetting& s, const Member& who, const Rates& r) {
  RoleCosts c;
  const std::vector<Channel> channels{Channel::parse("policy").value()};
  auto plan = plan_links(who, fleet.members, channels, kGatewayCandidates);
  c.links = plan.peers.size();
  double n = static_cast<double>(s.nodes), regions = static_cast<double>(fleet.regions), here = n / regions;
  double links = static_cast<double>(c.links);
  c.heartbeats = 2 * links * r.heartbeat;
  bool hub = who.bootstrap || who.trainer;
  bool candidate = &who == fleet.candidate;
  // Changes: a bootstrap daemon vouches for its region to the other hubs and to their candidates, and tells its own region
  // everything.
  double all = r.changes * r.member_change, own = all / regions;
  if (who.trainer) {
    c.membership = all + own * regions * kGatewayCandidates;
  } else if (hub) {
    double far_candidates = (regions - 1) * kGatewayCandidates;
    c.membership = (all - own) + own * regions + all * here + (s.tell_all ? all : own) * far_candidates;
  } else if (candidate) {
    c.membership = s.tell_all ? all * regions : 2 * all - own;
  } else {
    c.membership = all;
  }
  // States: a node tells its hub; the hub tells the trainers.
  double mine = r.states * r.state_own, passed = r.states * r.state_more;
  if (who.trainer) {
    c.states = passed * n;
  } else if (hub) {
    c.states = mine * here + passed * here * (s.tell_all ? regions : 1) + (s.tell_all ? passed * (n - here) : 0);
  } else {
    c.states = mine;
  }
  // Records go once to each node, from the entry node of its region; the trainer hands them to one entry of each region.
  c.records = who.trainer ? r.records * regions : hub ? r.records * (here + 1) : r.records;
  c.leases = who.trainer ? r.leases * regions / 2 : candidate ? r.leases * here / kGatewayCandidates + r.leases : r.leases;
  return c;
}

double microseconds_of(const std::function<void()>& what, int times) {
  auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) what();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / times;
}

}  // namespace

ControlCosts control_costs(const ControlSetting& s, std::uint64_t seed) {
  Fleet fleet = make_fleet(s, seed);
  ControlCosts out;
  out.setting = s;
  out.regions = fleet.regions;
  Rates r;
  r.heartbeat = weigh_heartbeat();
  r.member_change = weigh_member(fleet.infos[1]);
  wire::LinkMessage one;
  *one.mutable_states()->add_states() = state_of(fleet.infos[1]);
  r.state_own = weigh(one);
  r.state_more = static_cast<double>(state_of(fleet.infos[1]).ByteSizeLong()) + 3;
  // A death is told twice (suspect, gone), its replacement once.
  r.changes = 3 * s.deaths_per_hour * static_cast<double>(s.nodes) / 3600;
  r.states = kStatesPerVersion / s.interval + (s.tell_all ? 1.0 / 5 : 1.0 / 60);
  double per_version = static_cast<double>(s.bundles) + 2;
  r.records = per_version * (kRecord + kEnvelope + kAck) / s.interval + (kRecord + kEnvelope) / 20;
  wire::LinkMessage announce;
  announce.mutable_lease_announce()->set_bundle(std::string(32, 'b'));
  announce.mutable_lease_announce()->set_holder(std::string(32, 'h'));
  announce.mutable_lease_announce()->set_epoch(1);
  wire::LinkMessage have;
  have.mutable_have()->set_bundle(std::string(32, 'b'));
  have.mutable_have()->set_bits(std::string(16, 0));
  r.leases = static_cast<double>(s.bundles) * (weigh(announce) + weigh(have)) / s.interval;
  out.node = cost(fleet, s, *fleet.node, r);
  out.candidate = cost(fleet, s, *fleet.candidate, r);
  out.bootstrap = cost(fleet, s, *fleet.bootstrap, r);
  out.trainer = cost(fleet, s, *fleet.trainer, r);
  double regions = static_cast<double>(fleet.regions), n = static_cast<double>(s.nodes);
  double plain = n - regions * (1 + kGatewayCandidates);
  out.mean = (plain * out.node.total() + regions * (kGatewayCandidates * out.candidate.total() + out.bootstrap.total()) +
              out.trainer.total()) / (n + 1);
  out.table_bytes = n * (r.member_change - kEnvelope - kAck);

  std::vector<MemberView> views;
  for (const MemberInfo& info : fleet.infos) views.push_back({info, Life::live});
  MemberInfo self = fleet.infos[2];
  Membership table(self);
  SteadyTime now{};
  table.told(fleet.infos[1].member.key, true, views, now);
  table.take_changes();
  int times = s.nodes > 10'000 ? 3 : 20;
  out.members_microseconds = microseconds_of([&] { (void)table.members().size(); }, times);
  const std::vector<Channel> channels{Channel::parse("policy").value()};
  out.place_microseconds =
      microseconds_of([&] { (void)plan_links(*fleet.node, fleet.members, channels, kGatewayCandidates); }, times);
  return out;
}

std::string to_json(const ControlCosts& c) {
  nlohmann::ordered_json j;
  j["nodes"] = c.setting.nodes;
  j["regions"] = c.regions;
  j["tell_all"] = c.setting.tell_all;
  j["mean_bytes_per_second"] = std::round(c.mean * 10) / 10;
  auto role = [&](const char* name, const RoleCosts& r) {
    j[name] = {{"links", r.links},
               {"bytes_per_second", std::round(r.total() * 10) / 10},
               {"heartbeats", std::round(r.heartbeats * 10) / 10},
               {"membership", std::round(r.membership * 10) / 10},
               {"states", std::round(r.states * 10) / 10},
               {"records", std::round(r.records * 10) / 10},
               {"leases", std::round(r.leases * 10) / 10}};
  };
  role("node", c.node);
  role("candidate", c.candidate);
  role("bootstrap", c.bootstrap);
  role("trainer", c.trainer);
  j["table_bytes"] = std::round(c.table_bytes);
  j["members_microseconds"] = std::round(c.members_microseconds);
  j["place_microseconds"] = std::round(c.place_microseconds);
  return j.dump();
}

void print_control_head() {
  std::printf("%8s %8s | bytes/s: %8s %10s %10s %10s %10s | %12s %12s\n", "nodes", "regions", "mean", "node", "candidate",
              "bootstrap", "trainer", "members us", "plan us");
}

void print_row(const ControlCosts& c) {
  std::printf("%8zu %8zu |          %8.0f %10.0f %10.0f %10.0f %10.0f | %12.0f %12.0f\n", c.setting.nodes, c.regions, c.mean,
              c.node.total(), c.candidate.total(), c.bootstrap.total(), c.trainer.total(), c.members_microseconds,
              c.place_microseconds);
}

}  // namespace p2pw::fleet
