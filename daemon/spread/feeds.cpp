#include "daemon/spread/feeds.h"

#include <algorithm>

namespace p2pw {

using std::chrono::microseconds;

namespace {

wire::LinkMessage grant_message(const BundleId& bundle, Epoch epoch, bool fresh) {
  wire::LinkMessage m;
  auto* grant = m.mutable_lease_grant();
  grant->set_bundle(std::string(bundle.text()));
  grant->set_epoch(epoch.value());
  grant->set_fresh(fresh);
  return m;
}

wire::LinkMessage refuse_message(const BundleId& bundle, const Lease& lease) {
  wire::LinkMessage m;
  auto* refuse = m.mutable_lease_refuse();
  refuse->set_bundle(std::string(bundle.text()));
  refuse->set_holder(std::string(lease.holder.text()));
  refuse->set_epoch(lease.epoch.value());
  return m;
}

}  // namespace

const char* Feeds::name_of(State state) {
  switch (state) {
    case State::unassigned: return "unassigned";
    case State::waiting: return "waiting";
    case State::flowing: return "flowing";
    case State::draining: return "draining";
    case State::recalled: return "recalled";
    case State::done: return "done";
    case State::declined: return "declined";
  }
  return "";
}

Feeds::Feed* Feeds::find(const BundleId& bundle, const Region& region) {
  auto r = regions_.find(region);
  auto f = facts_.find(bundle);
  if (r == regions_.end() || f == facts_.end()) return nullptr;
  auto it = r->second.feeds.find(order_of(f->second));
  return it == r->second.feeds.end() ? nullptr : &it->second;
}

Feeds::Feed* Feeds::find_by_gateway(const BundleId& bundle, const NodeKey& gateway, Region* region) {
  auto regions = of_bundle_.find(bundle);
  if (regions == of_bundle_.end()) return nullptr;
  for (const Region& r : regions->second) {
    Feed* feed = find(bundle, r);
    if (feed && feed->lease.holder == gateway) {
      *region = r;
      return feed;
    }
  }
  return nullptr;
}

bool Feeds::feeding(const BundleId& bundle, const Region& region) const {
  auto it = of_bundle_.find(bundle);
  return it != of_bundle_.end() && it->second.contains(region);
}

void Feeds::start(const BundleFacts& bundle, const Region& region, const ChunkSet& held, bool fresh) {
  if (Feed* feed = find(bundle.id, region)) {
    if (feed->state != State::declined) return;
    feed->state = State::unassigned;
    assign(*feed);
    return;
  }
  auto [it, inserted] = regions_.try_emplace(region, RegionFeeds{Credit(options_.credit), {}, {}, {}, {}, {}});
  facts_.emplace(bundle.id, bundle);
  of_bundle_[bundle.id].insert(region);
  Feed& feed = it->second.feeds[order_of(bundle)];
  it->second.open[order_of(bundle)] = &feed;
  feed.bundle = bundle;
  feed.region = region;
  feed.held = held;
  feed.wanted = ChunkSet(bundle.chunks, true);
  feed.fresh = fresh;
  feed.changed = world_.now();
  assign(feed);
  pump(it->second);
}

bool Feeds::answers(const NodeKey& gateway) const {
  if (!world_.linked(gateway)) return false;
  for (const Member& m : world_.members()) {
    if (m.key == gateway && m.suspect) return false;
  }
  auto manners = manners_.find(gateway);
  return manners == manners_.end() || manners->second.shunned_until <= world_.now();
}

// A slow one only when there is no other. Nobody when nobody would answer: better to wait for news than to send chunks.
std::optional<NodeKey> Feeds::choose_gateway(const Feed& feed) const {
  const GatewayPace& pace = regions_.at(feed.region).pace;
  std::optional<NodeKey> slow;
  for (const NodeKey& key : gateway_succession(feed.bundle.place, feed.region, world_.members(), options_.candidates)) {
    if (!answers(key)) continue;
    if (!pace.slow(key, world_.now())) return key;
    if (!slow) slow = key;
  }
  return slow;
}

void Feeds::assign(Feed& feed) {
  auto gateway = choose_gateway(feed);
  if (!gateway) return;
  auto answer = leases_.ask(feed.bundle.id, feed.region, *gateway, feed.lease.epoch);
  if (answer.kind == LeaseAnswer::Kind::refused) return;
  bool again = feed.lease.epoch.value() > 0;
  if (again && feed.lease.holder != *gateway) ++counters_[feed.region].gateway_changes;
  feed.lease = answer.lease;
  bool fresh = feed.fresh && !again;
  feed.state = fresh ? State::flowing : State::waiting;
  feed.changed = feed.progress = world_.now();
  ++counters_[feed.region].leases_granted;
  world_.note(feed.bundle.id, again ? "gateway-change" : "lease",
              feed.region.str() + " to " + gateway->short_hex() + " epoch " +
                  std::to_string(feed.lease.epoch.value()));
  world_.introduce(*gateway, feed.bundle.id);
  world_.send(*gateway, grant_message(feed.bundle.id, feed.lease.epoch, fresh));
}

void Feeds::unassign(RegionFeeds& region, Feed& feed, const char* why) {
  for (auto& [chunk, flight] : feed.in_flight) {
    region.credit.lost(flight.bytes);
    counters_[feed.region].lost_bytes += flight.bytes;
    feed.wanted.add(ChunkIndex(chunk));
  }
  feed.in_flight.clear();
  world_.cut_queue(feed.lease.holder, feed.bundle.id);
  leases_.revoke(feed.bundle.id, feed.region, feed.lease.holder);
  feed.state = State::unassigned;
  feed.fresh = false;
  feed.changed = world_.now();
  world_.note(feed.bundle.id, "lease-lost", feed.region.str() + " by " + feed.lease.holder.short_hex() + ": " + why);
}

void Feeds::asked(const BundleFacts& bundle, const Member& asker, Epoch seen, const ChunkSet& missing,
                  const ChunkSet& held) {
  auto answer = leases_.ask(bundle.id, asker.region, asker.key, seen);
  if (answer.kind == LeaseAnswer::Kind::refused) {
    ++counters_[asker.region].leases_refused;
    world_.send(asker.key, refuse_message(bundle.id, answer.lease));
    return;
  }
  start(bundle, asker.region, held, false);
  Feed& feed = *find(bundle.id, asker.region);
  RegionFeeds& region = regions_[asker.region];
  if (feed.lease.holder != asker.key || feed.lease.epoch != answer.lease.epoch) {
    // What is on its way to an earlier holder is lost; what is on its way to this one still arrives.
    if (feed.lease.holder != asker.key) {
      for (auto& [chunk, flight] : feed.in_flight) region.credit.lost(flight.bytes);
      feed.in_flight.clear();
    }
    feed.lease = answer.lease;
    ++counters_[asker.region].leases_granted;
    world_.note(bundle.id, "lease", asker.region.str() + " to " + asker.key.short_hex() + " epoch " +
                                        std::to_string(answer.lease.epoch.value()));
  }
  world_.introduce(asker.key, bundle.id);
  world_.send(asker.key, grant_message(bundle.id, feed.lease.epoch, false));
  feed.held = held;
  feed.wanted = missing;
  for (auto& [chunk, flight] : feed.in_flight) feed.wanted.remove(ChunkIndex(chunk));
  feed.state = State::flowing;
  region.open[order_of(bundle)] = &feed;
  feed.changed = feed.progress = world_.now();
  settle(feed);
  pump(region);
}

void Feeds::declined(const NodeKey& gateway, const BundleId& bundle) {
  Region region;
  Feed* feed = find_by_gateway(bundle, gateway, &region);
  if (!feed || feed->state == State::done) return;
  bool recalled = feed->state == State::recalled;
  unassign(regions_[region], *feed, recalled ? "slow" : "served by another upstream");
  if (!recalled) {
    feed->state = State::declined;
    return;
  }
  assign(*feed);
  pump(regions_[region]);
}

void Feeds::chunk_held(const BundleId& bundle, ChunkIndex chunk) {
  auto regions = of_bundle_.find(bundle);
  if (regions == of_bundle_.end()) return;
  for (const Region& r : regions->second) {
    if (Feed* feed = find(bundle, r)) {
      feed->held.add(chunk);
      pump(regions_[r]);
    }
  }
}

void Feeds::acked(const NodeKey& gateway, const BundleId& bundle, ChunkIndex chunk, bool duplicate) {
  Manners& manners = manners_[gateway];
  manners = {world_.now(), {}, 0};
  Region name;
  Feed* feed = find_by_gateway(bundle, gateway, &name);
  if (!feed) return;
  if (duplicate && chunk.value() < feed->bundle.chunks) {
    ++counters_[name].duplicate_chunks;
    counters_[name].duplicate_bytes += feed->bundle.bytes_of(chunk);
  }
  auto it = feed->in_flight.find(chunk.value());
  if (it == feed->in_flight.end()) return;
  RegionFeeds& region = regions_[name];
  region.heard = world_.now();
  region.pace.acked(gateway, it->second.bytes);
  region.credit.acked(it->second.bytes, world_.now(),
                      std::chrono::duration_cast<microseconds>(world_.now() - it->second.at), world_.round_trip(gateway));
  feed->in_flight.erase(it);
  ++feed->acked;
  feed->progress = world_.now();
  settle(*feed);
  recall_when_drained(*feed);
  pump(region);
}

void Feeds::settle(Feed& feed) {
  if (feed.state == State::flowing && feed.wanted.none() && feed.in_flight.empty()) {
    feed.state = State::done;
    feed.changed = world_.now();
    regions_[feed.region].open.erase(order_of(feed.bundle));
  }
}

Feeds::Order Feeds::last_of(const Channel& channel) {
  BundleId last;
  last.data.fill(0xff);
  return {channel, Kind::anchor, Version(UINT64_MAX), BundleIndex(UINT32_MAX), last};
}

// The oldest feed of each channel's first few gateways; among them, the lane that got least so far is the next one.
std::map<Feeds::Lane, Feeds::Feed*> Feeds::heads_of(RegionFeeds& region, std::uint64_t& slack) const {
  std::map<Lane, Feed*> heads;
  for (auto it = region.open.begin(); it != region.open.end();) {
    const auto end = region.open.upper_bound(last_of(it->first.channel));
    for (std::size_t gateways = 0; it != end && gateways < options_.parallel_gateways; ++it) {
      Feed& feed = *it->second;
      if (feed.state != State::flowing || heads.contains(lane_of(feed)) || sendable(feed).none()) continue;
      heads.emplace(lane_of(feed), &feed);
      slack = std::max<std::uint64_t>(slack, feed.bundle.chunk_bytes);
      ++gateways;
    }
    it = end;
  }
  return heads;
}

void Feeds::pump(RegionFeeds& region) {
  for (;;) {
    std::uint64_t slack = 0;
    const auto heads = heads_of(region, slack);
    if (heads.empty() || !region.credit.may_send(slack)) return;
    // A gateway that has stopped must not swallow the shares of the others.
    std::set<NodeKey> gateways;
    for (auto& [lane, feed] : heads) gateways.insert(lane.second);
    std::uint64_t share = (region.credit.window() + slack) / gateways.size();
    Feed* next = nullptr;
    for (auto& [lane, feed] : heads) {
      if (in_flight_to(region, lane.second) >= share) continue;
      if (!next || region.turn[lane] < region.turn[lane_of(*next)]) next = feed;
    }
    if (!next || !send_next(region, *next)) return;
  }
}

std::uint64_t Feeds::in_flight_to(const RegionFeeds& region, const NodeKey& gateway) const {
  std::uint64_t bytes = 0;
  for (auto& [order, feed] : region.open) {
    if (feed->lease.holder != gateway) continue;
    for (auto& [chunk, flight] : feed->in_flight) bytes += flight.bytes;
  }
  return bytes;
}

ChunkSet Feeds::sendable(const Feed& feed) {
  ChunkSet chunks = feed.wanted;
  chunks &= feed.held;
  return chunks;
}

bool Feeds::send_next(RegionFeeds& region, Feed& feed) {
  ChunkIndex chunk = *sendable(feed).first();
  if (!world_.send_chunk(feed.lease.holder, feed.bundle.id, chunk, feed.lease.epoch)) return false;
  std::uint32_t bytes = feed.bundle.bytes_of(chunk);
  auto now = world_.now();
  if (feed.in_flight.empty()) feed.progress = now;
  feed.wanted.remove(chunk);
  feed.in_flight[chunk.value()] = {now, bytes};
  region.credit.sent(bytes, now);
  // A lane that comes late does not get everything until it has caught up with the others.
  std::uint64_t most = 0;
  for (auto& [key, sent] : region.turn) most = std::max(most, sent);
  auto& turn = region.turn[lane_of(feed)];
  turn = std::max(turn, most > (4u << 20) ? most - (4u << 20) : 0) + bytes;
  counters_[feed.region].chunks_sent += 1;
  counters_[feed.region].bytes_sent += bytes;
  return true;
}

void Feeds::peer_lost(const NodeKey& peer) {
  leases_.revoke_all(peer);
  for (auto& [name, region] : regions_) {
    bool touched = false;
    for (auto& [order, feed] : region.open) {
      if (feed->lease.holder != peer) continue;
      if (feed->state == State::unassigned || feed->state == State::declined) continue;
      unassign(region, *feed, "lost");
      touched = true;
    }
    std::erase_if(region.turn, [&](const auto& entry) { return entry.first.second == peer; });
    if (!touched) continue;
    for (auto& [order, feed] : region.open) {
      if (feed->state == State::unassigned) assign(*feed);
    }
    pump(region);
  }
}

void Feeds::peer_back(const NodeKey& peer) {
  manners_.erase(peer);
  for (auto& [name, region] : regions_) {
    for (auto& [order, feed] : region.open) {
      if (feed->state == State::unassigned) assign(*feed);
    }
    pump(region);
  }
}

void Feeds::forget(const BundleId& bundle) {
  auto regions = of_bundle_.find(bundle);
  if (regions == of_bundle_.end()) return;
  for (const Region& r : regions->second) {
    Feed* feed = find(bundle, r);
    if (!feed) continue;
    RegionFeeds& region = regions_[r];
    for (auto& [chunk, flight] : feed->in_flight) region.credit.lost(flight.bytes);
    if (!feed->in_flight.empty()) world_.cut_queue(feed->lease.holder, bundle);
    region.open.erase(order_of(facts_.at(bundle)));
    region.feeds.erase(order_of(facts_.at(bundle)));
  }
  of_bundle_.erase(regions);
  facts_.erase(bundle);
  leases_.forget(bundle);
}

microseconds Feeds::patience(const Feed& feed) const {
  auto manners = manners_.find(feed.lease.holder);
  int stalls = manners == manners_.end() ? 0 : std::min(manners->second.stalls, 4);
  microseconds allowed = options_.stall * (1 << stalls) + 3 * world_.round_trip(feed.lease.holder);
  if (feed.in_flight.empty()) return allowed;
  // What is under way for the whole region shares one link: allow it the time that the measured rate needs.
  const Credit& credit = regions_.at(feed.region).credit;
  double rate = std::max(credit.bytes_per_second(), 64.0 * 1024);
  auto drain = microseconds(static_cast<std::int64_t>(1e6 * static_cast<double>(credit.in_flight()) / rate));
  return allowed + std::min(drain, microseconds(8'000'000));
}

// Its gateway answers for nothing at all, though something is on the way to it.
bool Feeds::stalled(const Feed& feed) const {
  bool owes = feed.state == State::waiting || feed.state == State::recalled || !feed.in_flight.empty();
  if (!owes || feed.state == State::unassigned || feed.state == State::declined) return false;
  auto heard = feed.progress;
  auto manners = manners_.find(feed.lease.holder);
  if (manners != manners_.end()) heard = std::max(heard, manners->second.last_ack);
  return world_.now() - heard > patience(feed);
}

// The gateway answers for other chunks, but these must have got lost on its side.
void Feeds::resend_forgotten(RegionFeeds& region, Feed& feed) {
  if ((feed.state != State::flowing && feed.state != State::draining) || feed.in_flight.empty()) return;
  if (world_.now() - feed.progress <= 5 * patience(feed)) return;
  for (auto& [chunk, flight] : feed.in_flight) {
    region.credit.lost(flight.bytes);
    feed.wanted.add(ChunkIndex(chunk));
  }
  feed.in_flight.clear();
  feed.progress = world_.now();
  recall_when_drained(feed);
}

void Feeds::tick() {
  std::set<NodeKey> stalled_peers;
  for (auto& [name, region] : regions_) {
    for (auto& [order, feed] : region.open) {
      if (stalled(*feed)) {
        ++counters_[name].stalls;
        if (world_.now() - region.heard > options_.stall) region.credit.choke();
        stalled_peers.insert(feed->lease.holder);
      } else {
        resend_forgotten(region, *feed);
      }
    }
  }
  for (const NodeKey& peer : stalled_peers) {
    Manners& manners = manners_[peer];
    manners.shunned_until = world_.now() + options_.stall * (1 << std::min(manners.stalls, 4));
    ++manners.stalls;
    peer_lost(peer);
  }
  for (auto& [name, region] : regions_) {
    relieve_slow(region);
    for (auto& [order, feed] : region.open) {
      if (feed->state == State::unassigned) assign(*feed);
    }
    pump(region);
  }
}

// And no other upstream feeds the region: there is none to relay to it.
bool Feeds::some_gateway_idles(const RegionFeeds& region) const {
  if (!world_.self().trainer || region.open.empty()) return false;
  const Feed& any = *region.open.begin()->second;
  std::set<NodeKey> laden;
  for (auto& [order, feed] : region.open) laden.insert(feed->lease.holder);
  for (const Member& m : world_.members()) {
    if (!m.trainer && m.region != any.region && m.follows.has(any.bundle.place.channel)) return false;
  }
  for (const NodeKey& key : gateway_succession(any.bundle.place, any.region, world_.members(), options_.candidates)) {
    if (!laden.contains(key) && answers(key) && !region.pace.slow(key, world_.now())) return true;
  }
  return false;
}

void Feeds::relieve_slow(RegionFeeds& region) {
  std::set<NodeKey> busy;
  std::uint64_t chunk = 0;
  microseconds round_trip{0};
  for (auto& [order, feed] : region.open) {
    // A relay that waits for chunks itself says nothing about its gateways.
    if (feed->state != State::flowing || feed->in_flight.empty() || sendable(*feed).none()) continue;
    busy.insert(feed->lease.holder);
    chunk = std::max<std::uint64_t>(chunk, feed->bundle.chunk_bytes);
    round_trip = std::max(round_trip, world_.round_trip(feed->lease.holder));
  }
  auto idle = [this, &region] { return some_gateway_idles(region); };
  for (const NodeKey& gateway : region.pace.look(busy, idle, chunk, round_trip, world_.now())) relieve(region, gateway);
}

// Gives what it has not been sent yet to others.
void Feeds::relieve(RegionFeeds& region, const NodeKey& gateway) {
  for (auto& [order, feed] : region.open) {
    if (feed->lease.holder != gateway || feed->state != State::flowing || feed->wanted.none()) continue;
    auto other = choose_gateway(*feed);
    if (!other || region.pace.slow(*other, world_.now())) continue;
    ++counters_[feed->region].slow_gateways;
    world_.note(feed->bundle.id, "slow-gateway", feed->region.str() + " by " + gateway.short_hex());
    feed->state = State::draining;
    feed->changed = world_.now();
    recall_when_drained(*feed);
  }
}

void Feeds::recall_when_drained(Feed& feed) {
  if (feed.state != State::draining || !feed.in_flight.empty()) return;
  feed.state = State::recalled;
  feed.changed = feed.progress = world_.now();
  wire::LinkMessage m = refuse_message(feed.bundle.id, feed.lease);
  m.mutable_lease_refuse()->set_recall(true);
  world_.send(feed.lease.holder, m);
}

bool Feeds::busy() const {
  for (auto& [name, region] : regions_) {
    for (auto& [order, feed] : region.open) {
      if (feed->state != State::declined) return true;
    }
  }
  return false;
}

std::vector<Feeds::View> Feeds::views() const {
  std::vector<View> out;
  for (auto& [name, region] : regions_) {
    for (auto& [order, feed] : region.feeds) {
      out.push_back({feed.bundle.id, name, feed.lease.holder, feed.lease.epoch, name_of(feed.state),
                     feed.wanted.count(), feed.acked, static_cast<std::uint32_t>(feed.in_flight.size())});
    }
  }
  return out;
}

std::vector<Feeds::RegionView> Feeds::regions() const {
  std::vector<RegionView> out;
  for (auto& [name, region] : regions_) {
    out.push_back({name, region.credit.window(), region.credit.in_flight(), region.credit.bytes_per_second()});
  }
  return out;
}

}  // namespace p2pw
