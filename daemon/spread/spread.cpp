#include "daemon/spread/spread.h"

#include "daemon/spread/channel_rates.h"
#include "daemon/spread/lease_messages.h"

#include <map>

namespace p2pw {
namespace {

constexpr std::uint64_t kMaxEpoch = std::uint64_t{1} << 62;  // room above it for ever
constexpr std::size_t kMaxOffers = 1u << 14;                 // further ones are not kept: they stall

}  // namespace

Spread::Spread(SpreadWorld& world, SpreadOptions options)
    : world_(world), options_(options), feeds_(world, options_), intake_(world, options_) {
  intake_.on_gateway = [this](const BundleId& bundle, bool fresh) {
    auto it = bundles_.find(bundle);
    if (it == bundles_.end()) return;
    it->second.gateway = true;
    if (!it->second.facts.pushed) return;
    feed_children(it->second, fresh, region_rates(it->second.facts.place.channel, world_.members()));
  };
}

void Spread::add(const BundleFacts& bundle, const ChunkSet& held, bool fresh) {
  auto [it, inserted] = bundles_.try_emplace(bundle.id);
  if (!inserted) return;
  Entry& entry = it->second;
  entry.facts = bundle;
  entry.held = held;
  entry.storing = ChunkSet(bundle.chunks);
  entry.fresh = fresh;
  if (world_.self().trainer) {
    if (bundle.pushed) feed_children(entry, fresh, region_rates(bundle.place.channel, world_.members()));
  } else {
    intake_.add(bundle, held);
    take_up_offers(bundle.id);
  }
}

// Two upstreams that are both asked would both send: the others hear that there is one.
void Spread::take_up_offers(const BundleId& bundle) {
  bool taken = false;
  for (auto offer = offers_.lower_bound({bundle, NodeKey{}}); offer != offers_.end();) {
    const auto [id, from] = offer->first;
    if (id != bundle) break;
    const Offer made = offer->second;
    offer = offers_.erase(offer);
    if (taken) {
      decline(from, bundle, made.epoch, false);
    } else {
      intake_.granted(from, bundle, made.epoch, made.fresh);
    }
    taken = true;
  }
}

void Spread::forget(const BundleId& bundle) {
  ack_all(handing_on_.forget(bundle));
  feeds_.forget(bundle);
  intake_.forget(bundle);
  bundles_.erase(bundle);
}

const ChunkSet* Spread::held(const BundleId& bundle) const {
  auto it = bundles_.find(bundle);
  return it == bundles_.end() ? nullptr : &it->second.held;
}

void Spread::feed_children(Entry& entry, bool fresh, const std::vector<RegionRate>& regions) {
  const Member& self = world_.self();
  auto tree = relay_tree(order_regions(entry.facts.place, entry.facts.home, regions), options_.tree);
  auto at = self.trainer ? -1 : tree.index_of(self.region);
  if (at < -1) return;
  for (std::size_t child : tree.children_of(at)) {
    // The trainer's own region may have rollout nodes; a gateway never feeds its own region over a link.
    if (!self.trainer && tree.order[child] == self.region) continue;
    feeds_.start(entry.facts, tree.order[child], entry.held, fresh);
  }
}

void Spread::gain(Entry& entry, ChunkIndex chunk, const NodeKey* from) {
  entry.storing.remove(chunk);
  if (entry.held.has(chunk)) return;
  entry.held.add(chunk);
  intake_.chunk_held(entry.facts.id, chunk, from);
  feeds_.chunk_held(entry.facts.id, chunk);
}

void Spread::ack(const NodeKey& to, const BundleId& bundle, ChunkIndex chunk, Epoch epoch, bool duplicate) {
  wire::LinkMessage m;
  auto* ack = m.mutable_chunk_ack();
  ack->set_bundle(std::string(bundle.text()));
  ack->set_chunk(chunk.value());
  ack->set_epoch(epoch.value());
  ack->set_duplicate(duplicate);
  world_.send(to, m);
}

bool Spread::take_link_chunk(const NodeKey& from, const BundleId& bundle, ChunkIndex chunk, Epoch epoch) {
  auto it = bundles_.find(bundle);
  if (it == bundles_.end() || chunk.value() >= it->second.facts.chunks) return false;
  Entry& entry = it->second;
  if (entry.held.has(chunk) || entry.storing.has(chunk)) {
    ack(from, bundle, chunk, epoch, true);
    return false;
  }
  entry.storing.add(chunk);
  return true;
}

void Spread::link_chunk_stored(const NodeKey& from, const BundleId& bundle, ChunkIndex chunk, Epoch epoch) {
  auto it = bundles_.find(bundle);
  if (it == bundles_.end()) return;
  if (handing_on_.stored({bundle, chunk, from, epoch}, world_.now())) ack(from, bundle, chunk, epoch, false);
  gain(it->second, chunk, &from);
}

void Spread::handed_on(const BundleId& bundle, ChunkIndex chunk) {
  ack_all(handing_on_.handed_on(bundle, chunk, world_.now()));
}

void Spread::ack_all(const HandingOn::Chunks& chunks) {
  for (const HandingOn::Chunk& c : chunks) ack(c.from, c.bundle, c.chunk, c.epoch, false);
}

void Spread::link_chunk_bad(const NodeKey&, const BundleId& bundle, ChunkIndex chunk) {
  auto it = bundles_.find(bundle);
  if (it != bundles_.end()) it->second.storing.remove(chunk);
}

void Spread::swarm_chunk(const BundleId& bundle, ChunkIndex chunk) {
  auto it = bundles_.find(bundle);
  if (it != bundles_.end() && chunk.value() < it->second.facts.chunks) gain(it->second, chunk, nullptr);
}

void Spread::lease_asked(const Member& from, const wire::LeaseAsk& ask) {
  auto bundle = BundleId::from(ask.bundle());
  if (!bundle || ask.epoch_seen() > kMaxEpoch) return;
  auto it = bundles_.find(*bundle);
  bool mine = from.region == world_.self().region && !world_.self().trainer;
  if (it == bundles_.end() || mine || from.trainer ||
      (it->second.held.none() && !intake_.holder(*bundle))) {
    world_.send(from.key, unknown_message(*bundle));
    return;
  }
  Entry& entry = it->second;
  feeds_.asked(entry.facts, from, Epoch(ask.epoch_seen()), ChunkSet::from_wire(ask.missing(), entry.facts.chunks),
               entry.held);
}

void Spread::decline(const NodeKey& to, const BundleId& bundle, Epoch epoch, bool unwanted) {
  world_.send(to, decline_message(bundle, {world_.self().key, epoch}, unwanted));
}

void Spread::offered(const NodeKey& from, const BundleId& bundle, const wire::LeaseGrant& grant) {
  const Epoch epoch(grant.epoch());
  if (knows(bundle)) return intake_.granted(from, bundle, epoch, grant.fresh());
  if (world_.unwanted(bundle)) return decline(from, bundle, epoch, true);
  if (offers_.size() < kMaxOffers) offers_[{bundle, from}] = {epoch, grant.fresh(), world_.now()};
}

// A fresh one is never declined for being unknown: its record or its meta is late, and its chunks are on their way.
void Spread::settle_offers() {
  std::erase_if(offers_, [this](const auto& entry) {
    const auto& [bundle, from] = entry.first;
    const Offer& offer = entry.second;
    const bool unwanted = world_.unwanted(bundle);
    const bool late = world_.now() - offer.at >= options_.undecided;
    if (unwanted || (late && !offer.fresh)) decline(from, bundle, offer.epoch, true);
    return unwanted || late;
  });
}

bool Spread::message(const Member& from, const wire::LinkMessage& message) {
  bool regional = from.region == world_.self().region && !from.trainer && !world_.self().trainer;
  switch (message.body_case()) {
    case wire::LinkMessage::kLeaseAsk:
      lease_asked(from, message.lease_ask());
      return true;
    case wire::LinkMessage::kLeaseGrant: {
      auto bundle = BundleId::from(message.lease_grant().bundle());
      if (bundle && !regional && !world_.self().trainer && message.lease_grant().epoch() <= kMaxEpoch) {
        offered(from.key, *bundle, message.lease_grant());
      }
      return true;
    }
    case wire::LinkMessage::kLeaseRefuse: {
      const auto& refuse = message.lease_refuse();
      auto bundle = BundleId::from(refuse.bundle());
      if (!bundle) return true;
      if (refuse.served()) {
        feeds_.declined(from.key, *bundle, refuse.unwanted());
        intake_.supplied(from.key, *bundle);
      } else if (refuse.recall()) {
        if (!regional) intake_.recalled(from.key, *bundle);
      } else {
        if (refuse.unknown()) offers_.erase({*bundle, from.key});
        auto holder = NodeKey::from(refuse.holder()).value_or(NodeKey{});
        intake_.refused(from.key, *bundle, {holder, Epoch(refuse.epoch())}, refuse.unknown());
      }
      return true;
    }
    case wire::LinkMessage::kLeaseAnnounce: {
      const auto& announce = message.lease_announce();
      auto bundle = BundleId::from(announce.bundle());
      auto holder = NodeKey::from(announce.holder());
      if (bundle && holder && regional) {
        intake_.announced(from.key, *bundle, {*holder, Epoch(announce.epoch())});
      }
      return true;
    }
    case wire::LinkMessage::kHave: {
      auto bundle = BundleId::from(message.have().bundle());
      auto it = bundle ? bundles_.find(*bundle) : bundles_.end();
      if (it != bundles_.end() && regional) {
        std::uint32_t chunks = it->second.facts.chunks;
        intake_.neighbour_has(from.key, *bundle,
                              message.have().complete() ? ChunkSet(chunks, true)
                                                        : ChunkSet::from_wire(message.have().bits(), chunks));
      }
      return true;
    }
    case wire::LinkMessage::kChunkAck: {
      const auto& ack = message.chunk_ack();
      if (auto bundle = BundleId::from(ack.bundle())) {
        feeds_.acked(from.key, *bundle, ChunkIndex(ack.chunk()), ack.duplicate());
      }
      return true;
    }
    default:
      return false;
  }
}

void Spread::peer_up(const NodeKey& peer) {
  intake_.peer_up(peer);
  feeds_.peer_back(peer);
}

void Spread::peer_lost(const NodeKey& peer) {
  feeds_.peer_lost(peer);
  intake_.peer_lost(peer);
  handing_on_.peer_lost(peer);
  std::erase_if(offers_, [&](const auto& offer) { return offer.first.second == peer; });
}

void Spread::members_changed() {
  ChannelRates rates(world_.members());
  for (auto& [id, entry] : bundles_) {
    // A region that came or came back is fed by its parent; what it holds already it says itself.
    const bool feeds = world_.self().trainer || intake_.is_gateway(id);
    if (feeds) feed_children(entry, false, rates.of(entry.facts.place.channel));
  }
}

void Spread::tick() {
  ack_all(handing_on_.tick(world_.now()));
  feeds_.tick();
  settle_offers();
  intake_.tick();
}

}  // namespace p2pw
