#include "daemon/spread/feeds.h"

#include <algorithm>

#include "daemon/spread/lease_messages.h"

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

}  // namespace

Feed* Feeds::find(const BundleId& bundle, const Region& region) {
  auto r = regions_.find(region);
  auto f = facts_.find(bundle);
  if (r == regions_.end() || f == facts_.end()) return nullptr;
  auto it = r->second.feeds.find(RegionFeeds::Order::of(f->second));
  return it == r->second.feeds.end() ? nullptr : &it->second;
}

Feed* Feeds::find_by_gateway(const BundleId& bundle, const NodeKey& gateway, Region* region) {
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
    if (feed->state != State::declined || !may_offer_again(*feed)) return;
    feed->state = State::unassigned;
    feed->unwilling.clear();
    assign(*feed);
    return;
  }
  auto [it, inserted] = regions_.try_emplace(region, RegionFeeds(options_.credit));
  facts_.emplace(bundle.id, bundle);
  of_bundle_[bundle.id].insert(region);
  Feed& feed = it->second.feeds[RegionFeeds::Order::of(bundle)];
  it->second.open[RegionFeeds::Order::of(bundle)] = &feed;
  feed.bundle = bundle;
  feed.region = region;
  feed.held = held;
  feed.wanted = ChunkSet(bundle.chunks, true);
  feed.fresh = fresh;
  feed.changed = world_.now();
  assign(feed);
  pump(it->second);
}

// What is not wanted stays so, and members come and go all the time: not each of them makes for another round of offers.
bool Feeds::may_offer_again(const Feed& feed) const {
  if (feed.unwilling.empty()) return true;
  if (world_.now() - feed.changed >= options_.offer_again) return true;
  return std::ranges::none_of(world_.members(), [&](const Member& m) { return m.key == feed.lease.holder && !m.suspect; });
}

bool Feeds::answers(const NodeKey& gateway) const {
  if (!world_.linked(gateway)) return false;
  for (const Member& m : world_.members()) {
    if (m.key == gateway && m.suspect) return false;
  }
  auto manners = manners_.find(gateway);
  return manners == manners_.end() || manners->second.shunned_until <= world_.now();
}

// One that rests only when there is no other. Nobody when nobody would answer: better to wait for news than
// to send chunks.
std::optional<NodeKey> Feeds::choose_gateway(const Feed& feed) const {
  const GatewayPace& pace = regions_.at(feed.region).pace;
  std::optional<NodeKey> resting;
  for (const NodeKey& key :
       gateway_succession(feed.bundle.place, feed.region, world_.members(), options_.candidates)) {
    if (!answers(key) || feed.unwilling.contains(key)) continue;
    if (!pace.rests(key, world_.now())) return key;
    if (!resting) resting = key;
  }
  return resting;
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
  counters_[feed.region].lost_bytes += region.lose(feed);
  world_.cut_queue(feed.lease.holder, feed.bundle.id);
  leases_.revoke(feed.bundle.id, feed.region, feed.lease.holder);
  feed.state = State::unassigned;
  feed.fresh = false;
  feed.changed = world_.now();
  world_.note(feed.bundle.id, "lease-lost",
              feed.region.str() + " by " + feed.lease.holder.short_hex() + ": " + why);
}

void Feeds::asked(const BundleFacts& bundle, const Member& asker, Epoch seen, const ChunkSet& missing,
                  const ChunkSet& held) {
  // Its region has had it all, and does not hold it any more: whoever took it in has dropped it since. The
  // asker has heard its neighbours, a moment ago at least.
  if (const Feed* had = find(bundle.id, asker.region); had != nullptr && had->state == State::done &&
                                                       !missing.none() &&
                                                       world_.now() - had->changed > options_.stall) {
    leases_.revoke(bundle.id, asker.region, had->lease.holder);
  }
  auto answer = leases_.ask(bundle.id, asker.region, asker.key, seen);
  if (answer.kind == LeaseAnswer::Kind::refused) {
    ++counters_[asker.region].leases_refused;
    world_.send(asker.key, refuse_message(bundle.id, answer.lease));
    return;
  }
  if (!feeding(bundle.id, asker.region)) start(bundle, asker.region, held, false);
  Feed& feed = *find(bundle.id, asker.region);
  feed.unwilling.erase(asker.key);
  RegionFeeds& region = regions_.at(asker.region);
  if (feed.lease.holder != asker.key || feed.lease.epoch != answer.lease.epoch) {
    // What is on its way to an earlier holder is lost; what is on its way to this one still arrives.
    if (feed.lease.holder != asker.key) region.lose(feed);
    feed.lease = answer.lease;
    ++counters_[asker.region].leases_granted;
    world_.note(bundle.id, "lease",
                asker.region.str() + " to " + asker.key.short_hex() + " epoch " +
                    std::to_string(answer.lease.epoch.value()));
  }
  world_.introduce(asker.key, bundle.id);
  world_.send(asker.key, grant_message(bundle.id, feed.lease.epoch, false));
  feed.held = held;
  feed.wanted = missing;
  for (auto& [chunk, flight] : feed.in_flight) feed.wanted.remove(ChunkIndex(chunk));
  feed.state = State::flowing;
  region.open[RegionFeeds::Order::of(bundle)] = &feed;
  feed.changed = feed.progress = world_.now();
  settle(feed);
  pump(region);
}

void Feeds::declined(const NodeKey& gateway, const BundleId& bundle, bool unwanted) {
  Region region;
  Feed* feed = find_by_gateway(bundle, gateway, &region);
  if (!feed || feed->state == State::done) return;
  bool recalled = feed->state == State::recalled;
  unassign(regions_.at(region), *feed, recalled ? "slow" : unwanted ? "not wanted" : "served by another upstream");
  if (unwanted) feed->unwilling.insert(gateway);
  if (recalled || unwanted) assign(*feed);
  if (!recalled && feed->state == State::unassigned) feed->state = State::declined;
  pump(regions_.at(region));
}

void Feeds::chunk_held(const BundleId& bundle, ChunkIndex chunk) {
  auto regions = of_bundle_.find(bundle);
  if (regions == of_bundle_.end()) return;
  for (const Region& r : regions->second) {
    if (Feed* feed = find(bundle, r)) {
      feed->held.add(chunk);
      pump(regions_.at(r));
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
  RegionFeeds& region = regions_.at(name);
  region.note_acked(*feed, it, world_.now(), world_.round_trip(gateway));
  settle(*feed);
  recall_when_drained(*feed);
  pump(region);
}

void Feeds::settle(Feed& feed) {
  if (feed.state == State::flowing && feed.wanted.none() && feed.in_flight.empty()) {
    feed.state = State::done;
    feed.changed = world_.now();
    regions_.at(feed.region).open.erase(RegionFeeds::Order::of(feed.bundle));
  }
}

void Feeds::go_on(RegionFeeds& region) {
  for (auto& [order, feed] : region.open) {
    if (feed->state == State::unassigned) assign(*feed);
  }
  pump(region);
}

void Feeds::pump(RegionFeeds& region) {
  while (Feed* next = region.next(options_.parallel_gateways, world_.now())) {
    if (!send_next(region, *next)) return;
  }
}

bool Feeds::send_next(RegionFeeds& region, Feed& feed) {
  ChunkIndex chunk = *feed.sendable().first();
  if (!world_.send_chunk(feed.lease.holder, feed.bundle.id, chunk, feed.lease.epoch)) return false;
  region.note_sent(feed, chunk, world_.now());
  counters_[feed.region].chunks_sent += 1;
  counters_[feed.region].bytes_sent += feed.bundle.bytes_of(chunk);
  return true;
}

void Feeds::peer_lost(const NodeKey& peer) {
  leases_.revoke_all(peer);
  for (auto& [name, region] : regions_) {
    bool touched = false;
    for (auto& [order, feed] : region.open) {
      if (feed->lease.holder != peer || !feed->promised()) continue;
      unassign(region, *feed, "lost");
      touched = true;
    }
    std::erase_if(region.turn, [&](const auto& entry) { return entry.first.second == peer; });
    region.pace.forget(peer);
    if (!touched) continue;
    go_on(region);
  }
}

void Feeds::peer_back(const NodeKey& peer) {
  manners_.erase(peer);
  for (auto& [name, region] : regions_) {
    go_on(region);
  }
}

void Feeds::forget(const BundleId& bundle) {
  auto regions = of_bundle_.find(bundle);
  if (regions == of_bundle_.end()) return;
  for (const Region& r : regions->second) {
    Feed* feed = find(bundle, r);
    if (!feed) continue;
    RegionFeeds& region = regions_.at(r);
    if (!feed->in_flight.empty()) world_.cut_queue(feed->lease.holder, bundle);
    region.lose(*feed);
    // Whoever waits for the rest of it would take the silence for a stall.
    if (feed->promised()) world_.send(feed->lease.holder, unknown_message(bundle));
    region.open.erase(RegionFeeds::Order::of(facts_.at(bundle)));
    region.feeds.erase(RegionFeeds::Order::of(facts_.at(bundle)));
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
  if (!owes || !feed.promised()) return false;
  auto heard = feed.progress;
  auto manners = manners_.find(feed.lease.holder);
  if (manners != manners_.end()) heard = std::max(heard, manners->second.last_ack);
  return world_.now() - heard > patience(feed);
}

// The gateway answers for other chunks, but these must have got lost on its side.
void Feeds::resend_forgotten(RegionFeeds& region, Feed& feed) {
  if ((feed.state != State::flowing && feed.state != State::draining) || feed.in_flight.empty()) return;
  if (world_.now() - feed.progress <= 5 * patience(feed)) return;
  region.lose(feed);
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
    go_on(region);
  }
}

// Gives to others what gateways that the region would wait for have not been sent yet.
void Feeds::relieve_slow(RegionFeeds& region) {
  const auto now = world_.now();
  auto round_trip = [this](const NodeKey& key) { return world_.round_trip(key); };
  for (const NodeKey& gateway : region.too_slow(round_trip, now)) {
    region.pace.rest(gateway, now);
    for (auto& [order, feed] : region.open) {
      if (feed->lease.holder != gateway || feed->state != State::flowing || feed->wanted.none()) continue;
      auto other = choose_gateway(*feed);
      if (!other || region.pace.rests(*other, now)) continue;
      ++counters_[feed->region].slow_gateways;
      world_.note(feed->bundle.id, "slow-gateway", feed->region.str() + " by " + gateway.short_hex());
      feed->state = State::draining;
      feed->changed = now;
      recall_when_drained(*feed);
    }
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
      out.push_back({feed.bundle.id, name, feed.lease.holder, feed.lease.epoch, Feed::name_of(feed.state),
                     feed.wanted.count(), feed.acked, static_cast<std::uint32_t>(feed.in_flight.size())});
    }
  }
  return out;
}

std::vector<Feeds::RegionView> Feeds::regions() const {
  std::vector<RegionView> out;
  for (auto& [name, region] : regions_) {
    out.push_back(
        {name, region.credit.window(), region.credit.in_flight(), region.credit.bytes_per_second()});
  }
  return out;
}

}  // namespace p2pw
