// Spreading: how bundles get from the trainer into every region, one copy each, whoever dies. Puts together the two
// sides: Feeds (what this node sends to other regions) and Intake (what it takes into its own).
//
// Threads: control thread only. Pure: everything outside is behind SpreadWorld, so the fleet simulation runs this code.
#pragma once

#include <map>

#include "daemon/spread/feeds.h"
#include "daemon/spread/handing_on.h"
#include "daemon/spread/intake.h"

namespace p2pw {

class Spread {
 public:
  Spread(SpreadWorld& world, SpreadOptions options);

  // A bundle's record and meta are known; `held` is what lies on this disk. `fresh`: it was published just now, so nobody
  // else can hold any of it (only its own trainer says so).
  void add(const BundleFacts& bundle, const ChunkSet& held, bool fresh);
  void forget(const BundleId& bundle);
  bool knows(const BundleId& bundle) const { return bundles_.contains(bundle); }

  // A chunk is offered over a link. Take it when true (then tell link_chunk_stored or link_chunk_bad); when false it is
  // here or on its way into the store already and has been acknowledged as a duplicate.
  bool take_link_chunk(const NodeKey& from, const BundleId& bundle, ChunkIndex chunk, Epoch epoch);
  void link_chunk_stored(const NodeKey& from, const BundleId& bundle, ChunkIndex chunk, Epoch epoch);
  void link_chunk_bad(const NodeKey& from, const BundleId& bundle, ChunkIndex chunk);
  // A neighbour has a chunk that came over a link, or there is none that could take it.
  void handed_on(const BundleId& bundle, ChunkIndex chunk);
  // A chunk came from the region's swarm.
  void swarm_chunk(const BundleId& bundle, ChunkIndex chunk);

  // The spreading messages of an authenticated peer: true when the message was one.
  bool message(const Member& from, const wire::LinkMessage& message);
  void peer_up(const NodeKey& peer);
  void peer_lost(const NodeKey& peer);  // link down, suspect or gone
  void members_changed();
  void tick();  // every 100 ms

  const ChunkSet* held(const BundleId& bundle) const;
  bool is_gateway(const BundleId& bundle) const { return intake_.is_gateway(bundle); }
  const Feeds& feeds() const { return feeds_; }
  const Intake& intake() const { return intake_; }
  void claim(const BundleId& bundle) { intake_.claim(bundle); }
  void draw(const BundleId& bundle) { intake_.draw(bundle); }

 private:
  struct Entry {
    BundleFacts facts;
    ChunkSet held;
    ChunkSet storing;  // came over a link, being hashed
    bool fresh = false;
    bool gateway = false;
  };

  void feed_children(Entry& entry, bool fresh, const std::vector<RegionRate>& regions);
  void gain(Entry& entry, ChunkIndex chunk, const NodeKey* from);
  void ack(const NodeKey& to, const BundleId& bundle, ChunkIndex chunk, Epoch epoch, bool duplicate);
  void ack_all(const HandingOn::Chunks& chunks);
  void lease_asked(const Member& from, const wire::LeaseAsk& ask);
  void offered(const NodeKey& from, const BundleId& bundle, const wire::LeaseGrant& grant);
  void take_up_offers(const BundleId& bundle);
  void decline(const NodeKey& to, const BundleId& bundle, Epoch epoch, bool unwanted);
  void settle_offers();

  SpreadWorld& world_;
  const SpreadOptions options_;
  Feeds feeds_;
  Intake intake_;
  HandingOn handing_on_;
  std::unordered_map<BundleId, Entry> bundles_;
  // Grants of bundles that have yet to become known, or to be decided about: in no order with records and metas.
  struct Offer {
    Epoch epoch;
    bool fresh = false;
    SteadyTime at{};
  };
  std::map<std::pair<BundleId, NodeKey>, Offer> offers_;
};

}  // namespace p2pw
