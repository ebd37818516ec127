// The region's side of spreading: this node takes bundles into its region over the WAN when it is their gateway, and
// takes over when nobody does.
//
//   idle ──> polling ──> asking ──> receiving ──> done
//              ^           │            │
//              └───────────┴────────────┘  upstream lost, stalled or refused: ask the neighbours again, then the next one
//
//   asking, receiving ──> drawing ──> done
//              polling <─────┘  it has come to nothing
//
// A holder that receives well defends its lease with a higher epoch, so that a second upstream's offer makes no second
// copy; whoever stands back, or changes its upstream, tells the one that it leaves.
//
// polling: the lease has been announced to the region; neighbours say what they hold, so that only chunks that no live
// member holds are asked for. asking: an upstream has been asked. receiving: chunks come. A fresh grant goes to receiving
// at once. drawing: nobody outside gives anything, so this node brings the bundle in by itself, out of shared storage, and
// lets go of its upstream: regions that have nothing would wait for each other's gateways for ever.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <unordered_map>

#include "daemon/spread/channel_rates.h"
#include "daemon/spread/world.h"

namespace p2pw {

class Intake {
 public:
  Intake(SpreadWorld& world, const SpreadOptions& options) : world_(world), options_(options) {}
  // Asked after this node became, or stopped being, the gateway of a bundle: children in the tree follow from it.
  std::function<void(const BundleId&, bool fresh)> on_gateway;

  void add(const BundleFacts& bundle, const ChunkSet& held);
  void forget(const BundleId& bundle);
  void chunk_held(const BundleId& bundle, ChunkIndex chunk, const NodeKey* from);  // from: over a link

  // Messages. `from` is of another region for grant and refuse, of this region for announce and have.
  void granted(const NodeKey& from, const BundleId& bundle, Epoch epoch, bool fresh);
  // `unknown`: the upstream does not hold it, or has dropped it while it was feeding it.
  void refused(const NodeKey& from, const BundleId& bundle, const Lease& other, bool unknown);
  // The upstream wants another node of this region to go on: lets go, and says so.
  void recalled(const NodeKey& from, const BundleId& bundle);
  void announced(const NodeKey& from, const BundleId& bundle, const Lease& lease);
  void neighbour_has(const NodeKey& from, const BundleId& bundle, const ChunkSet& chunks);

  void peer_lost(const NodeKey& peer);
  void peer_up(const NodeKey& peer);  // a regional link: it learns our leases
  void tick();

  bool is_gateway(const BundleId& bundle) const;
  // Who might give a bundle all the same: says how long whoever could fetch it elsewhere should wait.
  struct Hope {
    bool peers = false;    // somebody outside is alive, though nothing comes
    bool trainer = false;  // the trainer is
    std::size_t regions_before = 0;  // of regions that all wait, so many turn to shared storage before this one
  };
  // Bundles that this node is to take in and that nobody outside gives, since when, and what the region lacks of them.
  struct Dry {
    BundleId bundle;
    ChunkSet missing;
    SteadyTime since;  // the beginning of time for those that it draws already
    Hope hope;
  };
  std::vector<Dry> dry() const;
  // Bundles that a neighbour is to take in, and of which nothing has come since.
  struct Quiet {
    BundleId bundle;
    SteadyTime since;
    Hope hope;
  };
  std::vector<Quiet> quiet() const;
  // Takes the lease from a neighbour that gets nowhere.
  void claim(const BundleId& bundle);
  // This node draws a dry bundle. To be said again and again while it does: who stops asks its peers.
  void draw(const BundleId& bundle);
  // This upstream has another source than us now, so something will come.
  void supplied(const NodeKey& upstream, const BundleId& bundle);
  std::optional<Lease> holder(const BundleId& bundle) const { return region_.current(bundle); }
  struct View {
    BundleId bundle;
    std::string state;
    NodeKey upstream;
    std::uint32_t held, chunks;
  };
  std::vector<View> views() const;

 private:
  enum class State { idle, polling, asking, receiving, drawing, done };
  struct Entry {
    BundleFacts bundle;
    ChunkSet held;
    ChunkSet region_held;        // as the neighbours said in this poll
    std::set<NodeKey> awaited;   // who has not answered this poll
    State state = State::idle;
    std::optional<NodeKey> upstream;
    std::optional<NodeKey> offered;  // an upstream that granted before we asked
    std::optional<NodeKey> feeding;  // an upstream that granted what we asked for: it sends until it is told not to
    std::set<NodeKey> tried;         // upstreams that refused or failed since the last success
    Epoch epoch;
    SteadyTime since{};     // of the state
    SteadyTime progress{};  // last chunk, by whatever way
    SteadyTime came{};      // the same, and of nothing else; at first when it became known
    SteadyTime drawn{};     // when draw() was said last
    std::optional<SteadyTime> dry;   // since when nobody outside has had anything to give
  };

  static const char* name_of(State state);
  void begin(Entry& entry, Epoch at_least);
  void ask_upstream(Entry& entry);
  void send_ask(const NodeKey& to, const Entry& entry, const ChunkSet& missing);
  std::vector<NodeKey> upstreams(const Entry& entry) const;
  bool first_in_line(const Entry& entry) const;
  void announce(const Entry& entry);
  void decline(const NodeKey& upstream, const Entry& entry, const Lease& served_by, bool unwanted = false);
  void let_go(Entry& entry, const Lease& served_by, bool unwanted = false);
  void stand_back(Entry& entry, const Lease& holder);
  Hope hope(const Entry& entry, ChannelRates& rates) const;
  bool well_served(const Entry& entry) const;
  SteadyTime last_sign(const Entry& entry) const;
  void enter(Entry& entry, State state);
  void step(Entry& entry);
  std::vector<NodeKey> neighbours(const Channel& channel) const;

  SpreadWorld& world_;
  const SpreadOptions& options_;
  std::map<NodeKey, SteadyTime> heard_;  // when an upstream last gave us a chunk
  SteadyTime moved_{};                   // when a chunk of any bundle came last, by whatever way
  RegionLeases region_;
  std::unordered_map<BundleId, Entry> entries_;
  std::unordered_map<BundleId, Entry*> open_;  // not done: the few of them that time can change
};

}  // namespace p2pw
