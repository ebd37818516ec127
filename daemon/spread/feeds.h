// The upstream's side of spreading: which regions this node feeds with which bundle, through which gateway,
// and which chunk goes next. One lease for each (bundle, region), so never two copies; credit for each
// region, shared by its gateways.
//
// A feed's life: waiting (granted; the gateway has yet to say what is missing) -> flowing -> done. A fresh
// feed starts flowing. A gateway that is gone, suspect or stalled is replaced by its successor, which says
// what is missing. One that would keep the region waiting (RegionFeeds::too_slow) is relieved: flowing ->
// draining (what is on its way arrives) -> recalled (it lets go) -> unassigned, so that nothing is sent
// twice.
#pragma once

#include <map>
#include <set>
#include <unordered_map>

#include "daemon/spread/region_feeds.h"

namespace p2pw {

struct FeedCounters {
  std::uint64_t chunks_sent = 0, bytes_sent = 0;
  std::uint64_t duplicate_chunks = 0, duplicate_bytes = 0;  // acknowledged as already there
  std::uint64_t lost_bytes = 0;                             // on the way to a gateway that went away
  std::uint64_t slow_gateways = 0;                          // times that one was relieved
  std::uint64_t gateway_changes = 0, leases_granted = 0, leases_refused = 0, stalls = 0;
};

class Feeds {
 public:
  Feeds(SpreadWorld& world, const SpreadOptions& options) : world_(world), options_(options) {}

  // This node should feed `region` with the bundle (it is its parent in the tree). `fresh`: nobody there can
  // hold any of it yet. Does nothing when a feed exists, unless it was declined; one that nobody wanted is offered
  // again after a while, or when who said so is gone. `held` is what this node has now.
  void start(const BundleFacts& bundle, const Region& region, const ChunkSet& held, bool fresh);
  // A node of another region asks. Grants, answers and begins to feed; or refuses.
  void asked(const BundleFacts& bundle, const Member& asker, Epoch seen, const ChunkSet& missing,
             const ChunkSet& held);
  // The gateway says that its region is served by somebody else, or lets go of what was recalled. `unwanted`: it has no
  // use for the bundle itself, so the next one is offered it.
  void declined(const NodeKey& gateway, const BundleId& bundle, bool unwanted);
  // This node has one more chunk: it may go on at once (cut-through).
  void chunk_held(const BundleId& bundle, ChunkIndex chunk);
  void acked(const NodeKey& gateway, const BundleId& bundle, ChunkIndex chunk, bool duplicate);

  void peer_lost(const NodeKey& peer);  // link down, suspect or gone
  void peer_back(const NodeKey& peer);
  void forget(const BundleId& bundle);  // gateways that wait for more of it are told
  void tick();  // stalls, feeds without a gateway

  bool feeding(const BundleId& bundle, const Region& region) const;
  bool busy() const;  // something is on its way
  struct View {
    BundleId bundle;
    Region region;
    NodeKey gateway;
    Epoch epoch;
    std::string state;
    std::uint32_t wanted, acked, in_flight;
  };
  std::vector<View> views() const;
  struct RegionView {
    Region region;
    std::uint64_t window, in_flight;
    double bytes_per_second;
  };
  std::vector<RegionView> regions() const;
  const std::map<Region, FeedCounters>& counters() const { return counters_; }

 private:
  using State = Feed::State;

  Feed* find(const BundleId& bundle, const Region& region);
  Feed* find_by_gateway(const BundleId& bundle, const NodeKey& gateway, Region* region);
  std::optional<NodeKey> choose_gateway(const Feed& feed) const;
  void assign(Feed& feed);
  void unassign(RegionFeeds& region, Feed& feed, const char* why);
  bool answers(const NodeKey& gateway) const;
  bool may_offer_again(const Feed& feed) const;
  void relieve_slow(RegionFeeds& region);
  void recall_when_drained(Feed& feed);
  void go_on(RegionFeeds& region);  // gives gateways to feeds that have none, then sends
  void pump(RegionFeeds& region);
  bool send_next(RegionFeeds& region, Feed& feed);
  void settle(Feed& feed);
  std::chrono::microseconds patience(const Feed& feed) const;
  bool stalled(const Feed& feed) const;
  void resend_forgotten(RegionFeeds& region, Feed& feed);

  SpreadWorld& world_;
  const SpreadOptions& options_;
  LeaseTable leases_;
  std::map<Region, RegionFeeds> regions_;
  std::unordered_map<BundleId, std::set<Region>> of_bundle_;
  std::unordered_map<BundleId, BundleFacts> facts_;
  // How well a gateway answers. One that stalls is passed over for a while, and given longer each time: a
  // machine that is merely busy must not be taken from and given to in turn.
  struct Manners {
    SteadyTime last_ack{};
    SteadyTime shunned_until{};
    int stalls = 0;  // since its last acknowledgement
  };
  std::map<NodeKey, Manners> manners_;
  std::map<Region, FeedCounters> counters_;
};

}  // namespace p2pw
