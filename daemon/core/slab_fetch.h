// Gets slabs from the neighbours: each wanted slab is asked of one of them at a time, a few per neighbour, so that many
// give at once. Which bytes are good the caller knows (a slab comes with its version); what a neighbour gave that was not
// is told back with bad(), and that neighbour is asked for nothing more for a while.
//
// Pure: the clock is an argument, the links are a function. Control thread only.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "protocol/links.pb.h"
#include "protocol/membership.h"
#include "protocol/placement.h"

namespace p2pw {

class SlabFetch {
 public:
  static constexpr std::size_t kPerPeer = 2;                      // asked of one neighbour at once
  static constexpr std::size_t kInAll = 16;                       // slabs under way, all neighbours together
  static constexpr std::chrono::seconds kPatience{20};            // for one slab
  static constexpr std::chrono::milliseconds kPause{500};         // before one is asked again
  static constexpr std::chrono::seconds kBanned{60};
  using Ask = std::function<void(const NodeKey& peer, SlabId slab)>;

  explicit SlabFetch(Ask ask) : ask_(std::move(ask)) {}

  void want(SlabId slab);
  void forget(SlabId slab);
  void forget_all();
  // It has come, or the neighbour has not got it. True: it was asked of this neighbour.
  bool answered(const NodeKey& peer, SlabId slab, bool gone, SteadyTime now);
  // What came was of no use, yet nobody's fault (a version that is not known here): to be asked for again, later.
  void again(SlabId slab, SteadyTime now);
  void bad(const NodeKey& peer, SteadyTime now);
  void peer_lost(const NodeKey& peer);
  // Asks for more where there is room.
  void fill(const std::vector<NodeKey>& neighbours, SteadyTime now);
  void tick(const std::vector<NodeKey>& neighbours, SteadyTime now);  // also looks for answers that are overdue

  bool wanted(SlabId slab) const { return slabs_.contains(slab); }
  std::size_t open() const { return slabs_.size(); }

 private:
  struct Wish {
    NodeKey asked;
    bool under_way = false;
    SteadyTime at{};             // asked, or not to be asked before
    std::set<NodeKey> declined;  // in this round
  };
  void put_off(SlabId slab, Wish& wish, SteadyTime until);

  Ask ask_;
  std::map<SlabId, Wish> slabs_;
  std::deque<SlabId> queue_;  // not under way; may name slabs that are no longer wanted
  std::map<NodeKey, std::size_t> load_;
  std::map<NodeKey, SteadyTime> banned_;
  std::size_t under_way_ = 0;
};

}  // namespace p2pw
