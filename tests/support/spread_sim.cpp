#include "tests/support/spread_sim.h"

#include <algorithm>

namespace p2pw::testing {

namespace {
constexpr microseconds kLan{2000};
constexpr std::uint64_t kMessageBytes = 200;
}  // namespace

SpreadSim::Node& SpreadSim::add_node(const std::string& region, bool trainer, Follows follows,
                                     std::set<BundleId> undecided) {
  Member self;
  self.key.data[0] = static_cast<std::uint8_t>(nodes_.size() + 1);
  self.key.data[31] = static_cast<std::uint8_t>(nodes_.size() * 37 + 11);
  self.region = Region::parse(region).value();
  self.trainer = trainer;
  self.follows = std::move(follows);
  nodes_.push_back(std::make_unique<Node>(*this, self));
  Node& node = *nodes_.back();
  node.undecided = std::move(undecided);
  if (nodes_.size() == 1) {
    schedule(now_ + milliseconds(100), [this] { refresh_members(); });
  }
  tick_later(node);
  refresh_members();
  for (auto& [id, facts] : bundles_) learn(node, facts, false);
  return node;
}

void SpreadSim::tick_later(Node& node) {
  schedule(now_ + milliseconds(100), [this, &node] {
    if (node.up()) node.spread.tick();
    if (node.up() && node.mirror) look_at_mirror(node);
    tick_later(node);
  });
}

void SpreadSim::refresh_members() {
  for (auto& viewer : nodes_) {
    if (!viewer->alive) continue;
    std::vector<Member> seen;
    for (auto& n : nodes_) {
      bool parted = accesses_[access_of(*n)].cut != accesses_[access_of(*viewer)].cut ||
                    (accesses_[access_of(*n)].cut && access_of(*n) != access_of(*viewer));
      if (!n->alive || (parted && n != viewer)) continue;
      Member m = n->self_;
      m.suspect = n->hung && now_ - n->hung_at >= std::chrono::seconds(3);
      if (m.suspect && n->hung && now_ - n->hung_at >= std::chrono::seconds(5)) continue;
      seen.push_back(m);
    }
    if (seen != viewer->members_) viewer->set_members(std::move(seen));
  }
}

void SpreadSim::Node::set_members(std::vector<Member> members) {
  auto old = std::move(members_);
  members_ = std::move(members);
  if (!up()) return;
  for (const Member& was : old) {
    auto is = std::find_if(members_.begin(), members_.end(), [&](auto& m) { return m.key == was.key; });
    if (is == members_.end() || (is->suspect && !was.suspect)) spread.peer_lost(was.key);
  }
  for (const Member& is : members_) {
    auto was = std::find_if(old.begin(), old.end(), [&](auto& m) { return m.key == is.key; });
    if (was == old.end() && is.key != key()) spread.peer_up(is.key);
  }
  spread.members_changed();
}

std::string SpreadSim::access_of(const Node& node) const { return node.self_.trainer ? "trainer" : node.region(); }

SpreadSim::Node* SpreadSim::find(const NodeKey& key) {
  for (auto& n : nodes_) {
    if (n->key() == key) return n.get();
  }
  return nullptr;
}

SpreadSim::Node* SpreadSim::gateway_of(const BundleId& bundle, const std::string& region) {
  for (auto& n : nodes_) {
    if (n->alive && n->region() == region && !n->self_.trainer && n->spread.is_gateway(bundle)) return n.get();
  }
  return nullptr;
}

BundleId SpreadSim::publish(std::uint32_t chunks, std::uint32_t chunk_bytes, std::uint64_t version,
                            std::uint32_t index, const std::string& channel) {
  BundleFacts facts;
  std::uint64_t n = next_bundle_++ * 0x9E3779B97F4A7C15ull;
  std::memcpy(facts.id.data.data(), &n, sizeof n);
  facts.place.channel = Channel::parse(channel).value();
  facts.place.run.data[0] = static_cast<std::uint8_t>(version);
  facts.version = Version(version);
  facts.place.index = BundleIndex(index);
  facts.used_bytes = std::uint64_t(chunks) * chunk_bytes;
  facts.chunk_bytes = chunk_bytes;
  facts.chunks = chunks;
  for (auto& node : nodes_) {
    if (node->self_.trainer) facts.home = node->self_.region;
  }
  bundles_[facts.id] = facts;
  for (auto& node : nodes_) {
    if (!node->up()) continue;
    bool trainer = node->self_.trainer;
    // Records reach everybody over the trainer's links; half a second is a generous round trip.
    auto add = [this, facts, trainer, n = node.get()] { learn(*n, facts, trainer); };
    if (trainer) {
      add();
    } else {
      schedule(now_ + milliseconds(400), add);
    }
  }
  return facts.id;
}

bool SpreadSim::Node::linked(const NodeKey& peer) const {
  Node* other = sim_.find(peer);
  if (!other || !other->alive || other == this) return false;
  return std::any_of(members_.begin(), members_.end(), [&](auto& m) { return m.key == peer; });
}

microseconds SpreadSim::Node::round_trip(const NodeKey& peer) const {
  Node* other = sim_.find(peer);
  if (!other) return microseconds(0);
  auto a = sim_.access_of(*this), b = sim_.access_of(*other);
  if (a == b) return 2 * kLan;
  return 2 * (sim_.accesses_[a].delay + sim_.accesses_[b].delay);
}

SteadyTime SpreadSim::spend(double bits, SteadyTime& free, SteadyTime ready, std::uint64_t bytes) {
  if (bits == 0) return ready;
  free = std::max(free, ready) + microseconds(static_cast<std::int64_t>(8e6 * static_cast<double>(bytes) / bits));
  return free;
}

std::optional<SteadyTime> SpreadSim::transit(Node& from, Node& to, std::uint64_t bytes) {
  auto a = access_of(from), b = access_of(to);
  auto ready = spend(from.cable_bits, from.cable_up_free, now_, bytes);
  if (a == b) return spend(to.cable_bits, to.cable_down_free, ready + kLan, bytes);
  Access &up = accesses_[a], &down = accesses_[b];
  if (up.cut || down.cut) return std::nullopt;
  auto left = spend(up.up_bits, up.up_free, ready, bytes);
  auto arrived = spend(down.down_bits, down.down_free, left + up.delay + down.delay, bytes);
  return spend(to.cable_bits, to.cable_down_free, arrived, bytes);
}

void SpreadSim::Node::send(const NodeKey& peer, const wire::LinkMessage& message) {
  Node* to = sim_.find(peer);
  if (!to || !to->alive) return;
  if (message.has_lease_grant()) ++sim_.grants_[to->region()];
  auto a = sim_.access_of(*this), b = sim_.access_of(*to);
  if (a != b && (sim_.accesses_[a].cut || sim_.accesses_[b].cut)) return;
  // Control messages never wait behind chunks.
  auto delay = a == b ? kLan : sim_.accesses_[a].delay + sim_.accesses_[b].delay;
  sim_.schedule(sim_.now_ + delay, [to, from = self_, message] {
    to->receive([to, from, message] { to->spread.message(from, message); });
  });
}

void SpreadSim::Node::receive(std::function<void()> message) {
  if (up()) {
    message();
  } else if (alive) {
    unread_.push_back(std::move(message));
  }
}

void SpreadSim::Node::introduce(const NodeKey& peer, const BundleId& bundle) {
  Node* to = sim_.find(peer);
  auto facts = sim_.bundles_.at(bundle);
  auto delay = round_trip(peer) / 2;
  sim_.schedule(sim_.now_ + delay, [this, to, facts] { sim_.learn(*to, facts, false); });
}

void SpreadSim::learn(Node& node, const BundleFacts& facts, bool fresh) {
  if (node.no_use_for.contains(facts.id) || node.undecided.contains(facts.id)) return;
  if (!node.up() || node.spread.knows(facts.id) || !node.self_.follows.has(facts.place.channel)) return;
  node.spread.add(facts, ChunkSet(facts.chunks, node.self_.trainer), fresh);
  // The swarm brings what neighbours have already.
  for (auto& n : nodes_) {
    const ChunkSet* theirs = n->spread.held(facts.id);
    if (n.get() == &node || !n->up() || n->self_.trainer || n->region() != node.region() || !theirs) continue;
    for (auto c = theirs->first(); c; c = theirs->first(c->value() + 1)) {
      schedule(now_ + kLan, [&node, id = facts.id, chunk = *c] {
        if (node.up()) node.spread.swarm_chunk(id, chunk);
      });
    }
  }
}

bool SpreadSim::Node::send_chunk(const NodeKey& peer, const BundleId& bundle, ChunkIndex chunk, Epoch epoch) {
  Node* to = sim_.find(peer);
  if (!to || !to->alive) return false;
  sim_.deliver_chunk(*this, *to, bundle, chunk, epoch);
  return true;
}

void SpreadSim::deliver_chunk(Node& from, Node& to, const BundleId& bundle, ChunkIndex chunk, Epoch epoch) {
  std::uint32_t bytes = bundles_.at(bundle).bytes_of(chunk);
  sent_into_[to.region()] += bytes;
  sent_of_[{to.region(), bundle}] += bytes;
  if (from.self_.trainer) trainer_sent_ += bytes;
  auto arrival = transit(from, to, bytes);
  if (!arrival) return;
  schedule(*arrival, [this, &from, &to, bundle, chunk, epoch] {
    to.receive([this, &from, &to, bundle, chunk, epoch] {
      if (!to.spread.take_link_chunk(from.key(), bundle, chunk, epoch)) return;
      to.spread.link_chunk_stored(from.key(), bundle, chunk, epoch);
      swarm(to, bundle, chunk);
    });
  });
}

void SpreadSim::swarm(Node& from, const BundleId& bundle, ChunkIndex chunk) {
  bool alone = true;
  for (auto& n : nodes_) {
    if (n.get() == &from || n->self_.trainer || n->region() != from.region()) continue;
    alone = false;
    auto arrival = transit(from, *n, bundles_.at(bundle).bytes_of(chunk));
    schedule(*arrival, [n = n.get(), &from, bundle, chunk] {
      n->receive([n, &from, bundle, chunk] {
        n->spread.swarm_chunk(bundle, chunk);
        from.receive([&from, bundle, chunk] { from.spread.handed_on(bundle, chunk); });
      });
    });
  }
  if (alone) from.spread.handed_on(bundle, chunk);
}

// As MirrorReader does.
void SpreadSim::look_at_mirror(Node& node) {
  const MirrorPatience patience;
  constexpr std::size_t kAtOnce = 32;
  for (auto& dry : node.spread.intake().dry()) {
    if (now_ - dry.since < chunk_patience(dry.hope, patience)) continue;
    node.spread.draw(dry.bundle);
    for (auto c = dry.missing.first(); c && node.reading.size() < kAtOnce;
         c = dry.missing.first(c->value() + 1)) {
      read_mirror(node, dry.bundle, *c);
    }
  }
  for (auto& quiet : node.spread.intake().quiet()) {
    auto line =
        gateway_succession(bundles_.at(quiet.bundle).place, node.self_.region, node.members_, nodes_.size());
    auto place = static_cast<std::size_t>(std::find(line.begin(), line.end(), node.key()) - line.begin());
    const bool turn =
        turn_has_come(now_, quiet.since, claim_patience(quiet.hope, patience), place, patience.turn);
    if (turn) node.spread.claim(quiet.bundle);
  }
}

void SpreadSim::read_mirror(Node& node, const BundleId& bundle, ChunkIndex chunk) {
  if (!node.reading.emplace(bundle, chunk).second) return;
  mirror_read_[node.region()] += bundles_.at(bundle).bytes_of(chunk);
  schedule(now_ + milliseconds(500), [this, &node, bundle, chunk] {
    node.reading.erase({bundle, chunk});
    if (!node.up()) return;
    node.spread.swarm_chunk(bundle, chunk);
    swarm(node, bundle, chunk);
  });
}

void SpreadSim::kill(Node& node) {
  node.alive = false;
  schedule(now_ + milliseconds(200), [this] { refresh_members(); });
}

void SpreadSim::hang(Node& node) {
  node.hung = true;
  node.hung_at = now_;
  for (auto ms : {3000, 3200, 5000, 5200}) schedule(now_ + milliseconds(ms), [this] { refresh_members(); });
}

void SpreadSim::resume(Node& node) {
  node.hung = false;
  auto unread = std::move(node.unread_);
  node.unread_.clear();
  for (auto& message : unread) message();
  refresh_members();
}

void SpreadSim::cut(const std::string& region, bool cut) {
  accesses_[region].cut = cut;
  schedule(now_ + (cut ? milliseconds(5000) : milliseconds(500)), [this] { refresh_members(); });
}

void SpreadSim::at(milliseconds delay, std::function<void()> what) { schedule(now_ + delay, std::move(what)); }

void SpreadSim::run_for(milliseconds time) {
  auto end = now_ + time;
  run_until([&] { return now_ >= end; }, time + milliseconds(1000));
}

bool SpreadSim::run_until(const std::function<bool()>& done, milliseconds limit) {
  auto end = now_ + limit;
  while (!done()) {
    if (events_.empty() || events_.top().at > end) return false;
    auto event = events_.top();
    events_.pop();
    now_ = event.at;
    event.run();
  }
  return true;
}

bool SpreadSim::complete(const BundleId& bundle) {
  for (auto& n : nodes_) {
    if (!n->up() || n->self_.trainer || !n->self_.follows.has(bundles_.at(bundle).place.channel)) continue;
    const ChunkSet* held = n->spread.held(bundle);
    if (!held || !held->full()) {
      // A member that came late has whatever its neighbours have, by the swarm.
      bool neighbour_full = false;
      for (auto& m : nodes_) {
        auto* theirs = m->spread.held(bundle);
        neighbour_full = neighbour_full || (m->up() && m->region() == n->region() && theirs && theirs->full());
      }
      if (!neighbour_full) return false;
    }
  }
  return true;
}

double SpreadSim::copies(std::uint64_t bytes) const {
  std::uint64_t total = 0;
  for (auto& [id, facts] : bundles_) total += facts.used_bytes;
  return static_cast<double>(bytes) / static_cast<double>(total);
}

double SpreadSim::copies_into(const std::string& region) const {
  auto it = sent_into_.find(region);
  return it == sent_into_.end() ? 0 : copies(it->second);
}

double SpreadSim::read_from_mirror(const std::string& region) const {
  auto it = mirror_read_.find(region);
  return it == mirror_read_.end() ? 0 : copies(it->second);
}

std::uint64_t SpreadSim::bytes_into(const std::string& region, const BundleId& bundle) const {
  auto it = sent_of_.find({region, bundle});
  return it == sent_of_.end() ? 0 : it->second;
}

std::size_t SpreadSim::grants_into(const std::string& region) const {
  auto it = grants_.find(region);
  return it == grants_.end() ? 0 : it->second;
}

std::uint64_t SpreadSim::stalls() const {
  std::uint64_t stalls = 0;
  for (auto& node : nodes_) {
    for (auto& [region, counters] : node->spread.feeds().counters()) stalls += counters.stalls;
  }
  return stalls;
}

void SpreadSim::decide(Node& node, const BundleId& bundle, bool wanted) {
  node.undecided.erase(bundle);
  if (wanted) {
    node.no_use_for.erase(bundle);
    learn(node, bundles_.at(bundle), false);
  } else {
    node.no_use_for.insert(bundle);
  }
}

double SpreadSim::trainer_copies() const {
  return copies(trainer_sent_);
}

}  // namespace p2pw::testing
