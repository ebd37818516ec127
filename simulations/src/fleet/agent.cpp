#include "simulations/src/fleet/p2pw_run.h"

namespace p2pw::fleet {

namespace {
// A message on a link: 8 bytes of framing, 29 of TLS, 66 of TCP, IP and Ethernet.
constexpr std::size_t kEnvelope = 8 + 29 + 66;
// A bundle's meta: roots and frame entries; its record and its run's `open`.
constexpr std::size_t kMetaPerChunk = 32, kMetaPerFrame = 28, kRecords = 2 * 420;
constexpr double kSlab = 8 * kMiB;
}  // namespace

Agent::Agent(P2pwRun& run, std::size_t host) : run_(run), host_(host), spread(*this, run.options_) {
  const Host& h = run.hosts_[host];
  self_.key = h.key;
  self_.region = p2pw::Region::parse(run.regions_[h.region].name).value();
  self_.trainer = h.trainer;
}

SteadyTime Agent::now() const { return run_.clock_.now(); }
const std::vector<Member>& Agent::members() const { return run_.members_; }

// As the link plan has it: candidates and trainers among each other, and with everybody in their own region.
bool Agent::linked(const NodeKey& peer) const {
  auto it = run_.host_of_.find(peer);
  if (it == run_.host_of_.end() || it->second == host_) return false;
  const Host& other = run_.hosts_[it->second];
  if (!other.alive) return false;
  return run_.agents_[it->second] || other.region == run_.hosts_[host_].region;
}

std::chrono::microseconds Agent::round_trip(const NodeKey& peer) const {
  auto it = run_.host_of_.find(peer);
  if (it == run_.host_of_.end()) return std::chrono::microseconds(0);
  double way = run_.one_way(run_.hosts_[host_], run_.hosts_[it->second]);
  return std::chrono::microseconds(static_cast<std::int64_t>(2e6 * way));
}

void Agent::send(const NodeKey& peer, const wire::LinkMessage& message) {
  auto it = run_.host_of_.find(peer);
  if (it == run_.host_of_.end()) return;
  std::size_t to = it->second;
  run_.count_control(run_.hosts_[host_], message.ByteSizeLong() + kEnvelope);
  double way = run_.one_way(run_.hosts_[host_], run_.hosts_[to]);
  if (run_.agents_[to]) {
    run_.clock_.after(way, [&run = run_, to, from = self_, message] {
      if (run.hosts_[to].alive && run.agents_[to]) run.agents_[to]->spread.message(from, message);
    });
    return;
  }
  // A node of the fluid answers an announcement with what the region's swarm has given everybody.
  if (!message.has_lease_announce() || message.lease_announce().holder() != self_.key.text()) return;
  auto known = run_.bundle_of_.find(*BundleId::from(message.lease_announce().bundle()));
  if (known == run_.bundle_of_.end()) return;
  auto& asked = asked_[known->second];
  if (asked.empty()) run_.clock_.after(2 * way, [this, b = known->second] { answer_for_fluid(b); });
  asked.push_back(to);
}

void Agent::answer_for_fluid(std::uint32_t bundle) {
  auto asked = std::move(asked_[bundle]);
  asked_.erase(bundle);
  const auto& known = run_.bundles_[bundle];
  if (!run_.hosts_[host_].alive || !run_.bundle_of_.contains(known.facts.id)) return;
  const ChunkSet& theirs = known.regions[run_.hosts_[host_].region].spread;
  wire::LinkMessage have;
  have.mutable_have()->set_bundle(std::string(known.facts.id.text()));
  have.mutable_have()->set_complete(theirs.full());
  if (!theirs.full()) have.mutable_have()->set_bits(theirs.to_wire());
  std::size_t bytes = have.ByteSizeLong() + kEnvelope;
  Member from;
  from.region = self_.region;
  for (std::size_t host : asked) {
    if (!run_.hosts_[host].alive) continue;
    run_.count_control(run_.hosts_[host], bytes);
    from.key = run_.hosts_[host].key;
    spread.message(from, have);
  }
}

void Agent::introduce(const NodeKey& peer, const BundleId& bundle) {
  auto to = run_.host_of_.find(peer);
  auto known = run_.bundle_of_.find(bundle);
  if (to == run_.host_of_.end() || known == run_.bundle_of_.end() || !run_.agents_[to->second]) return;
  const BundleFacts& facts = run_.bundles_[known->second].facts;
  double frames = static_cast<double>(facts.used_bytes) / run_.scenario_.delta_bytes * run_.scenario_.checkpoint_bytes / kSlab;
  std::size_t bytes = facts.chunks * kMetaPerChunk + static_cast<std::size_t>(frames) * kMetaPerFrame + kRecords + 2 * kEnvelope;
  run_.count_control(run_.hosts_[host_], bytes);
  run_.clock_.after(run_.one_way(run_.hosts_[host_], run_.hosts_[to->second]), [&run = run_, t = to->second, b = known->second] {
    if (run.hosts_[t].alive && run.agents_[t]) run.learn(*run.agents_[t], b, false);
  });
}

bool Agent::send_chunk(const NodeKey& peer, const BundleId& bundle, ChunkIndex chunk, Epoch epoch) {
  auto to = run_.host_of_.find(peer);
  if (to == run_.host_of_.end() || !run_.agents_[to->second]) return false;
  std::uint32_t b = run_.bundle_of_.at(bundle);
  Network::Flow flow = run_.flow_between(host_, to->second);
  std::uint32_t tag;
  if (run_.free_packets_.empty()) {
    tag = static_cast<std::uint32_t>(run_.packets_.size());
    run_.packets_.emplace_back();
  } else {
    tag = run_.free_packets_.back();
    run_.free_packets_.pop_back();
  }
  run_.packets_[tag] = {b, chunk.value(), static_cast<std::uint32_t>(epoch.value()), static_cast<std::uint32_t>(to->second)};
  run_.network_.push(flow, tag, run_.bundles_[b].facts.bytes_of(chunk));
  run_.wake_network();
  return true;
}

void Agent::cut_queue(const NodeKey& peer, const BundleId& bundle) {
  auto to = run_.host_of_.find(peer);
  auto known = run_.bundle_of_.find(bundle);
  if (to == run_.host_of_.end() || known == run_.bundle_of_.end() || !run_.agents_[to->second]) return;
  run_.network_.cut(run_.flow_between(host_, to->second), [&](std::uint64_t tag) {
    if (run_.packets_[tag].bundle != known->second) return false;
    run_.free_packets_.push_back(static_cast<std::uint32_t>(tag));
    return true;
  });
}

}  // namespace p2pw::fleet
