// What the neighbours of one region do for each other beside the swarm: slabs of active slots for joiners and for damaged
// slots, tables to start from, and pins that keep bundles from being dropped while somebody still needs them. Decides,
// too, which sealed versions' bundles this node should fetch at all: a newcomer that can copy slabs needs none of the old
// ones, and asking for them would bring them over the WAN.
//
// Threads: control thread only.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "daemon/core/join.h"
#include "daemon/core/rebuild.h"
#include "daemon/core/retention.h"
#include "daemon/core/slab_fetch.h"
#include "daemon/core/slab_server.h"

namespace p2pw {

class SlabExchange {
 public:
  static constexpr std::chrono::seconds kPinEvery{5}, kPinLasts{60};
  // A lineage that is not complete here and of which nothing has come for so long is to be had nowhere.
  static constexpr std::chrono::seconds kStuck{90};
  static constexpr std::size_t kFarBehind = kKeptVersions;  // sealed versions; beyond, the region may not have the deltas

  // What the exchange needs of its node.
  struct World {
    std::function<std::vector<NodeKey>()> neighbours;  // of this region, linked, no trainer
    std::function<bool()> alone;                       // no such neighbour is a member, linked or not
    std::function<std::vector<NodeKey>()> links;       // all
    SlabServer::Send send;
    std::function<std::string(const NodeKey&)> name;
    std::function<void(const std::string& event, const std::string& detail)> event;
    std::function<Version()> keeps_above;  // see Table
  };

  SlabExchange(const ChannelLog& log, SlotPair& slots, Rebuilder& rebuilder, WorkPool& pool, World world);

  // True when it was one of the exchange's.
  bool message(const NodeKey& from, const wire::LinkMessage& message, Bytes& payload, SteadyTime now);
  void slab_lost(const RebuildEvents::LostSlab& lost, SteadyTime now);
  void slab_mended(std::uint32_t slab);
  void staged();  // whatever was to be copied is there
  void peer_up(const NodeKey& peer);
  void peer_lost(const NodeKey& peer);
  void tick(SteadyTime now);

  // Who gave this slab, since the last certificate.
  std::optional<NodeKey> giver_of(std::uint32_t slab) const;
  void certified() { origins_.clear(); }
  void blame(const NodeKey& peer, const std::string& what, SteadyTime now);

  // Slabs that are damaged here, what they may come back as, and since when nobody has given them.
  struct Stranded {
    std::uint32_t slab = 0;
    std::map<Version, Digest> wanted;
    SteadyTime since;
  };
  std::vector<Stranded> stranded() const;
  // Bundles of this run should be fetched here.
  bool wants(const Run& run) const;
  // What wants() says may be otherwise in a moment: this node is looking for a place to start from, or the run's seal is
  // on its way.
  bool undecided_about(const Run& run) const;
  // Since the last call it was decided where this node starts from.
  bool take_decision() { return std::exchange(decision_, false); }
  // Nodes that have pinned a lineage.
  std::vector<Need> pins(SteadyTime now) const;
  bool joining() const { return join_.undecided() || join_.state() == Join::State::offered; }

 private:
  Version base() const;  // deltas above this one are needed here
  std::size_t behind() const;
  bool undecided() const;
  void look_for_base(SteadyTime now);
  void settle_join();
  bool lacks_deltas() const;
  bool somebody_new();
  void look_for_another_way(SteadyTime now);
  void take_lineage(const std::vector<RunId>& lineage);
  void pass_over_others();
  void slab(const NodeKey& from, const wire::SlabData& data, Bytes payload, SteadyTime now);
  void send_pin(SteadyTime now);
  void say_pin(std::uint64_t above, const std::vector<NodeKey>& to);
  Version pinned_above() const;

  const ChannelLog& log_;
  SlotPair& slots_;
  Rebuilder& rebuilder_;
  World world_;
  SlabServer server_;
  SlabFetch fetch_;
  Join join_;
  bool offered_ = false;                // the join's offer has been handed over
  bool decision_ = false;               // see take_decision()
  bool by_deltas_ = false;              // far behind, yet a neighbour has all the deltas
  std::set<RunId> lineage_;             // the way from nothing, over the WAN: no neighbour has anything
  Version lineage_start_, lineage_end_;
  std::set<RunId> lost_deltas_;         // that lineage_ leads around
  bool anew_ = false;  // lineage_ is there because nobody has the deltas from what lies here
  SteadyTime anew_since_{};
  std::uint64_t arrivals_ = 0;                               // of the Rebuilder
  std::optional<SteadyTime> lacking_;                        // since when nothing of what is lacking has come
  std::set<NodeKey> links_;                                  // at that time
  std::map<std::uint32_t, std::map<Version, Digest>> lost_;  // what a lost slab may come back as
  std::map<std::uint32_t, SteadyTime> lost_since_;           // of those that are no part of a copy
  std::map<std::uint32_t, NodeKey> givers_;                  // of slabs that are being put in place
  std::map<std::uint32_t, NodeKey> origins_;                 // of slabs that no certificate has vouched for yet
  std::map<NodeKey, std::pair<Version, SteadyTime>> pins_;
  std::optional<SteadyTime> pinned_at_;
};

}  // namespace p2pw
