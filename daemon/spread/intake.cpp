#include "daemon/spread/intake.h"

#include <algorithm>

#include "daemon/spread/lease_messages.h"

namespace p2pw {

namespace {

wire::LinkMessage announce_message(const BundleId& bundle, const Lease& lease) {
  wire::LinkMessage m;
  auto* a = m.mutable_lease_announce();
  a->set_bundle(std::string(bundle.text()));
  a->set_holder(std::string(lease.holder.text()));
  a->set_epoch(lease.epoch.value());
  return m;
}

wire::LinkMessage have_message(const BundleId& bundle, const ChunkSet& held) {
  wire::LinkMessage m;
  auto* have = m.mutable_have();
  have->set_bundle(std::string(bundle.text()));
  have->set_complete(held.full());
  if (!held.full()) have->set_bits(held.to_wire());
  return m;
}

}  // namespace

const char* Intake::name_of(State state) {
  switch (state) {
    case State::idle: return "idle";
    case State::polling: return "polling";
    case State::asking: return "asking";
    case State::receiving: return "receiving";
    case State::drawing: return "drawing";
    case State::done: return "done";
  }
  return "";
}

void Intake::enter(Entry& entry, State state) {
  entry.state = state;
  entry.since = world_.now();
  if (state == State::done) open_.erase(entry.bundle.id);
}

void Intake::add(const BundleFacts& bundle, const ChunkSet& held) {
  auto [it, inserted] = entries_.try_emplace(bundle.id);
  if (!inserted) return;
  Entry& entry = it->second;
  entry.bundle = bundle;
  entry.held = held;
  entry.region_held = ChunkSet(bundle.chunks);
  entry.progress = entry.came = world_.now();
  open_[bundle.id] = &entry;
  enter(entry, held.full() ? State::done : State::idle);
}

void Intake::forget(const BundleId& bundle) {
  auto it = entries_.find(bundle);
  // Whoever feeds it would take the silence for a stall.
  if (it != entries_.end() && it->second.state != State::done) {
    let_go(it->second, {world_.self().key, it->second.epoch}, true);
  }
  open_.erase(bundle);
  entries_.erase(bundle);
  region_.forget(bundle);
}

void Intake::chunk_held(const BundleId& bundle, ChunkIndex chunk, const NodeKey* from) {
  auto it = entries_.find(bundle);
  if (it == entries_.end()) return;
  Entry& entry = it->second;
  entry.held.add(chunk);
  entry.progress = entry.came = moved_ = world_.now();
  if (from) {
    entry.tried.clear();
    heard_[*from] = world_.now();
    entry.dry.reset();
  }
  if (entry.held.full()) enter(entry, State::done);
}

bool Intake::is_gateway(const BundleId& bundle) const {
  auto lease = region_.current(bundle);
  return lease && lease->holder == world_.self().key;
}

std::vector<NodeKey> Intake::neighbours(const Channel& channel) const {
  std::vector<NodeKey> out;
  for (const Member& m : world_.members()) {
    if (m.trainer || m.suspect || m.region != world_.self().region || m.key == world_.self().key) continue;
    if (m.follows.has(channel) && world_.linked(m.key)) out.push_back(m.key);
  }
  return out;
}

void Intake::announce(const Entry& entry) {
  auto message = announce_message(entry.bundle.id, {world_.self().key, entry.epoch});
  for (const NodeKey& key : neighbours(entry.bundle.place.channel)) world_.send(key, message);
}

void Intake::decline(const NodeKey& upstream, const Entry& entry, const Lease& served_by, bool unwanted) {
  world_.send(upstream, decline_message(entry.bundle.id, served_by, unwanted));
}

void Intake::let_go(Entry& entry, const Lease& served_by, bool unwanted) {
  if (entry.feeding) decline(*entry.feeding, entry, served_by, unwanted);
  if (entry.offered && entry.offered != entry.feeding) decline(*entry.offered, entry, served_by, unwanted);
  entry.feeding.reset();
  entry.offered.reset();
  entry.upstream.reset();
  entry.dry.reset();
}

// The region is served through somebody else.
void Intake::stand_back(Entry& entry, const Lease& holder) {
  let_go(entry, holder);
  enter(entry, State::idle);
}

// Of its upstream being well. One that gives us chunks of older bundles has not forgotten this one.
SteadyTime Intake::last_sign(const Entry& entry) const {
  SteadyTime last = std::max(entry.progress, entry.since);
  auto heard = entry.upstream ? heard_.find(*entry.upstream) : heard_.end();
  return heard == heard_.end() ? last : std::max(last, heard->second);
}

// Chunks come, or have had no time yet to come.
bool Intake::well_served(const Entry& entry) const {
  if (entry.state == State::drawing) return world_.now() - entry.drawn < options_.stall;
  return entry.state == State::receiving && entry.upstream && world_.linked(*entry.upstream) &&
         world_.now() - last_sign(entry) < options_.stall;
}

void Intake::begin(Entry& entry, Epoch at_least) {
  // A lease that was another's, dead or alive, ends with a higher epoch.
  Epoch floor = region_.floor(entry.bundle.id);
  entry.epoch = std::max(is_gateway(entry.bundle.id) ? floor : floor.next(), at_least);
  region_.hear(entry.bundle.id, {world_.self().key, entry.epoch});
  entry.region_held = ChunkSet(entry.bundle.chunks);
  auto peers = neighbours(entry.bundle.place.channel);
  entry.awaited = std::set<NodeKey>(peers.begin(), peers.end());
  entry.upstream.reset();
  enter(entry, State::polling);
  announce(entry);
  if (on_gateway) on_gateway(entry.bundle.id, false);
  step(entry);
}

void Intake::granted(const NodeKey& from, const BundleId& bundle, Epoch epoch, bool fresh) {
  auto it = entries_.find(bundle);
  if (it == entries_.end()) return;
  Entry& entry = it->second;
  if (entry.held.full()) {
    // Nothing is missing: say so, and the upstream is done with this region.
    send_ask(from, entry, ChunkSet(entry.bundle.chunks));
    return;
  }
  if (entry.state == State::drawing) return decline(from, entry, {world_.self().key, entry.epoch});
  bool expected = entry.state == State::asking && entry.upstream == from;
  if (!expected && entry.state == State::receiving && entry.upstream && *entry.upstream != from &&
      world_.linked(*entry.upstream)) {
    // Somebody else serves this region already and is well: one copy is enough.
    decline(from, entry, {world_.self().key, entry.epoch});
    return;
  }
  auto lease = region_.current(bundle);
  bool outdated = epoch < region_.floor(bundle) && !expected;
  if (expected || (fresh && !outdated && !lease)) {
    entry.epoch = std::max(entry.epoch, epoch);
    region_.hear(bundle, {world_.self().key, entry.epoch});
    entry.upstream = entry.feeding = from;
    entry.dry.reset();
    entry.progress = world_.now();
    enter(entry, entry.held.full() ? State::done : State::receiving);
    announce(entry);
    if (on_gateway) on_gateway(bundle, fresh);
    return;
  }
  entry.offered = from;
  if (entry.state != State::polling) begin(entry, epoch);
}

void Intake::refused(const NodeKey& from, const BundleId& bundle, const Lease& other, bool unknown) {
  auto it = entries_.find(bundle);
  if (it == entries_.end()) return;
  Entry& entry = it->second;
  if (unknown && entry.feeding == from) entry.feeding.reset();
  if (unknown && entry.offered == from) entry.offered.reset();
  if (entry.upstream != from) return;
  if (unknown && entry.state == State::receiving) {
    entry.tried.insert(from);
    begin(entry, entry.epoch.next());
    return;
  }
  if (entry.state != State::asking) return;
  if (!unknown) {
    for (const Member& m : world_.members()) {
      bool live_holder = m.key == other.holder && m.region == world_.self().region && !m.suspect;
      if (live_holder && m.key != world_.self().key) {
        region_.hear(bundle, other);
        if (entry.feeding == from) entry.feeding.reset();
        stand_back(entry, other);
        return;
      }
    }
  }
  entry.tried.insert(from);
  ask_upstream(entry);
}

void Intake::recalled(const NodeKey& from, const BundleId& bundle) {
  auto it = entries_.find(bundle);
  if (it == entries_.end()) return;
  Entry& entry = it->second;
  const Lease own{world_.self().key, entry.epoch};
  if (entry.feeding == from || entry.upstream == from) {
    if (is_gateway(bundle)) region_.drop(bundle);
    entry.feeding.reset();
    entry.upstream.reset();
    entry.dry.reset();
    if (entry.state != State::done) enter(entry, State::idle);
  }
  decline(from, entry, own);
}

void Intake::announced(const NodeKey& from, const BundleId& bundle, const Lease& lease) {
  // Epochs count grants: whoever jumps far ahead wants nobody ever to be granted a higher one.
  constexpr std::uint64_t kMaxJump = 1u << 20;
  const std::uint64_t floor = region_.floor(bundle).value();
  if (lease.epoch.value() > floor && lease.epoch.value() - floor > kMaxJump) return;
  auto it = entries_.find(bundle);
  if (it != entries_.end() && is_gateway(bundle) && lease.holder != world_.self().key &&
      lease.epoch >= it->second.epoch && well_served(it->second)) {
    it->second.epoch = lease.epoch.next();
    region_.hear(bundle, {world_.self().key, it->second.epoch});
    announce(it->second);
    return;
  }
  auto heard = region_.hear(bundle, lease);
  if (heard == RegionLeases::Heard::outranked) {
    if (auto current = region_.current(bundle)) world_.send(from, announce_message(bundle, *current));
    return;
  }
  if (it == entries_.end()) return;
  Entry& entry = it->second;
  if (lease.holder == from) world_.send(from, have_message(bundle, entry.held));
  bool working = entry.state == State::polling || entry.state == State::asking ||
                 entry.state == State::receiving || entry.state == State::drawing;
  if (working && lease.holder != world_.self().key) stand_back(entry, lease);
}

void Intake::neighbour_has(const NodeKey& from, const BundleId& bundle, const ChunkSet& chunks) {
  auto it = entries_.find(bundle);
  if (it == entries_.end()) return;
  Entry& entry = it->second;
  if (entry.state != State::polling) return;
  entry.region_held |= chunks;
  entry.awaited.erase(from);
  step(entry);
}

void Intake::peer_lost(const NodeKey& peer) {
  region_.drop_holder(peer);
  heard_.erase(peer);
  for (auto& [id, entry] : entries_) {
    if (entry.feeding == peer) entry.feeding.reset();
    entry.awaited.erase(peer);
    if (entry.offered == peer) entry.offered.reset();
    if (entry.state == State::polling) step(entry);
    bool upstream_lost = entry.upstream == peer &&
                         (entry.state == State::asking || entry.state == State::receiving);
    if (!upstream_lost) continue;
    entry.tried.insert(peer);
    begin(entry, entry.epoch.next());
  }
}

void Intake::peer_up(const NodeKey& peer) {
  // It failed over a link that is no more. Passed over for ever, the trainer would be asked by nobody, and two regions that
  // turned to each other instead would wait for good.
  for (auto& [id, entry] : entries_) entry.tried.erase(peer);
  for (const Member& m : world_.members()) {
    if (m.key != peer || m.region != world_.self().region) continue;
    for (auto& [id, entry] : entries_) {
      if (is_gateway(id) && entry.state != State::done && m.follows.has(entry.bundle.place.channel)) {
        world_.send(peer, announce_message(id, {world_.self().key, entry.epoch}));
      }
    }
  }
}

std::vector<NodeKey> Intake::upstreams(const Entry& entry) const {
  const Member& self = world_.self();
  std::vector<NodeKey> out;
  auto add = [&](const NodeKey& key) {
    if (key != self.key && world_.linked(key) && !entry.tried.contains(key) &&
        std::find(out.begin(), out.end(), key) == out.end()) {
      out.push_back(key);
    }
  };
  if (entry.offered) add(*entry.offered);
  auto tree = relay_tree(region_order(entry.bundle.place, entry.bundle.home, world_.members()), options_.tree);
  auto at = tree.index_of(self.region);
  if (at >= 0 && tree.parent[at] >= 0) {
    const Region& parent = tree.order[tree.parent[at]];
    for (const NodeKey& key : gateway_succession(entry.bundle.place, parent, world_.members(), options_.candidates)) {
      for (const Member& m : world_.members()) {
        if (m.key == key && !m.suspect) add(key);
      }
    }
  }
  // Then whoever is nearest; the trainer among them.
  std::vector<const Member*> rest;
  for (const Member& m : world_.members()) {
    const bool outside = m.trainer || m.region != self.region;
    if (!m.suspect && outside && m.follows.has(entry.bundle.place.channel)) rest.push_back(&m);
  }
  std::stable_sort(rest.begin(), rest.end(), [&](const Member* a, const Member* b) {
    if (at == 0 && a->trainer != b->trainer) return a->trainer;
    return world_.round_trip(a->key) < world_.round_trip(b->key);
  });
  for (const Member* m : rest) add(m->key);
  return out;
}

void Intake::ask_upstream(Entry& entry) {
  ChunkSet missing = entry.held.complement();
  missing -= entry.region_held;
  if (missing.none()) {
    // Neighbours hold the rest: the swarm brings it. Looked at again if it does not.
    entry.upstream.reset();
    enter(entry, State::receiving);
    return;
  }
  auto candidates = upstreams(entry);
  if (candidates.empty()) {
    if (!entry.dry) entry.dry = world_.now();
    entry.tried.clear();
    entry.upstream.reset();
    enter(entry, State::asking);  // step() tries again after a while
    return;
  }
  entry.upstream = candidates.front();
  if (entry.feeding && entry.feeding != entry.upstream) {
    decline(*entry.feeding, entry, {world_.self().key, entry.epoch});
    entry.feeding.reset();
  }
  entry.offered.reset();
  enter(entry, State::asking);
  send_ask(*entry.upstream, entry, missing);
}

void Intake::send_ask(const NodeKey& to, const Entry& entry, const ChunkSet& missing) {
  wire::LinkMessage m;
  auto* ask = m.mutable_lease_ask();
  ask->set_bundle(std::string(entry.bundle.id.text()));
  ask->set_epoch_seen(entry.epoch.value());
  ask->set_missing(missing.to_wire());
  world_.send(to, m);
}

// The first live candidate takes in what nobody takes in; the others wait longer in turn, in case it does not.
bool Intake::first_in_line(const Entry& entry) const {
  auto quiet = world_.now() - std::max(entry.progress, entry.since);
  if (quiet <= std::min(options_.unclaimed, options_.unclaimed_trainer_lives)) return false;  // nobody's turn yet
  auto order = gateway_succession(entry.bundle.place, world_.self().region, world_.members(), options_.candidates);
  bool trainer_lives = std::any_of(world_.members().begin(), world_.members().end(),
                                   [](const Member& m) { return m.trainer && !m.suspect; });
  auto patience = trainer_lives ? options_.unclaimed_trainer_lives : options_.unclaimed;
  for (std::size_t place = 0; place < order.size(); ++place) {
    if (order[place] == world_.self().key) return quiet > patience + 2 * place * options_.unclaimed;
  }
  return false;
}

void Intake::step(Entry& entry) {
  auto in_state = world_.now() - entry.since;
  switch (entry.state) {
    case State::idle: {
      auto lease = region_.current(entry.bundle.id);
      bool unclaimed = !lease || lease->holder == world_.self().key ||
                       world_.now() - std::max(entry.came, moved_) > options_.forgotten;
      if (unclaimed && first_in_line(entry)) begin(entry, region_.floor(entry.bundle.id).next());
      break;
    }
    case State::polling:
      if (entry.awaited.empty() || in_state > options_.poll) ask_upstream(entry);
      break;
    case State::asking: {
      auto patience = options_.stall;
      if (entry.upstream) {
        patience += std::chrono::duration_cast<std::chrono::milliseconds>(3 * world_.round_trip(*entry.upstream));
      } else {
        patience = options_.poll;
      }
      if (in_state < patience) break;
      if (entry.upstream) entry.tried.insert(*entry.upstream);
      ask_upstream(entry);
      break;
    }
    case State::receiving: {
      // Without an upstream the neighbours were to have it all. With one that is well but has nothing to send, the
      // neighbours may have got further meanwhile, or another upstream may hold more.
      auto quiet = world_.now() - last_sign(entry);
      auto patience = entry.upstream ? 4 * options_.stall : options_.stall;
      if (quiet > patience) begin(entry, entry.epoch.next());
      break;
    }
    case State::drawing:
      if (world_.now() - entry.drawn > options_.stall) begin(entry, entry.epoch.next());
      break;
    case State::done:
      break;
  }
}

void Intake::tick() {
  for (auto& [id, entry] : open_) step(*entry);
}

Intake::Hope Intake::hope(const Entry& entry, ChannelRates& rates) const {
  const Channel& channel = entry.bundle.place.channel;
  Hope hope;
  for (const Member& m : world_.members()) {
    if (m.suspect || !m.follows.has(channel) || (!m.trainer && m.region == world_.self().region)) continue;
    hope.peers = true;
    hope.trainer = hope.trainer || m.trainer;
  }
  if (!hope.peers) return hope;
  const auto order = order_regions(entry.bundle.place, entry.bundle.home, rates.of(channel));
  const auto at = std::find(order.begin(), order.end(), world_.self().region);
  hope.regions_before = static_cast<std::size_t>(at - order.begin());
  return hope;
}

std::vector<Intake::Dry> Intake::dry() const {
  std::vector<Dry> out;
  ChannelRates rates(world_.members());
  for (auto& [id, entry] : open_) {
    const bool asks = entry->state == State::asking || entry->state == State::receiving;
    if (!is_gateway(id) || (!asks && entry->state != State::drawing)) continue;
    ChunkSet missing = entry->held.complement();
    missing -= entry->region_held;
    if (missing.none()) continue;
    Dry& dry = out.emplace_back(Dry{id, std::move(missing), {}, {}});
    if (!asks) continue;
    dry.hope = hope(*entry, rates);
    if (dry.hope.peers) {
      // They grant what they wait for themselves. As long as anything at all comes, this may only have to
      // wait its turn.
      dry.since = std::max(entry->came, moved_);
    } else if (entry->dry) {
      dry.since = *entry->dry;
    } else {
      out.pop_back();
    }
  }
  return out;
}

std::vector<Intake::Quiet> Intake::quiet() const {
  std::vector<Quiet> out;
  ChannelRates rates(world_.members());
  for (auto& [id, entry] : open_) {
    if (entry->state != State::idle || is_gateway(id)) continue;
    Quiet& quiet =
        out.emplace_back(Quiet{id, std::max(entry->progress, entry->since), hope(*entry, rates)});
    if (quiet.hope.peers) quiet.since = std::max(entry->came, moved_);
  }
  return out;
}

void Intake::draw(const BundleId& bundle) {
  auto it = entries_.find(bundle);
  if (it == entries_.end() || !is_gateway(bundle)) return;
  Entry& entry = it->second;
  const bool asks = entry.state == State::asking || entry.state == State::receiving;
  if (!asks && entry.state != State::drawing) return;
  entry.drawn = world_.now();
  if (!asks) return;
  if (!entry.feeding) entry.feeding = entry.upstream;  // its answer may be on the way
  let_go(entry, {world_.self().key, entry.epoch});
  enter(entry, State::drawing);
}

void Intake::supplied(const NodeKey& upstream, const BundleId& bundle) {
  auto it = entries_.find(bundle);
  if (it != entries_.end() && it->second.upstream == upstream) it->second.came = world_.now();
}

void Intake::claim(const BundleId& bundle) {
  auto it = entries_.find(bundle);
  if (it != entries_.end() && it->second.state == State::idle) begin(it->second, region_.floor(bundle).next());
}

std::vector<Intake::View> Intake::views() const {
  std::vector<View> out;
  for (auto& [id, entry] : entries_) {
    out.push_back({id, name_of(entry.state), entry.upstream.value_or(NodeKey{}), entry.held.count(),
                   entry.bundle.chunks});
  }
  return out;
}

}  // namespace p2pw
