// When a gateway acknowledges chunks that came over a link: at once, for as long as its neighbours take up what it brings.
// When something has lain here for kJam that none of them has yet, this node's cable or disk is too slow for what it is
// sent: further chunks are acknowledged as they are handed on. So its upstream, which sends as acknowledgements come, sends
// it no more than it gives away, sees that it is behind, and gives its bundles to others; and the region never waits for more
// than a window of it. After kPatience a chunk is acknowledged in any case: neighbours may have come to a stop.
//
// Pure: time is an argument, never earlier than before. Control thread.
#pragma once

#include <list>
#include <map>
#include <vector>

#include "daemon/spread/credit.h"
#include "protocol/ids.h"
#include "protocol/lease.h"

namespace p2pw {

class HandingOn {
 public:
  static constexpr std::chrono::milliseconds kJam{250};
  static constexpr std::chrono::milliseconds kPatience{500};
  static constexpr std::chrono::seconds kForgotten{5};  // then it says nothing of today's cable any more

  struct Chunk {
    BundleId bundle;
    ChunkIndex chunk;
    NodeKey from;
    Epoch epoch;
  };
  using Chunks = std::vector<Chunk>;

  // It is here, and perhaps nowhere else in the region. True: acknowledge it now.
  bool stored(const Chunk& chunk, SteadyTime now);
  // The others return what is to be acknowledged now.
  Chunks handed_on(const BundleId& bundle, ChunkIndex chunk, SteadyTime now);
  Chunks tick(SteadyTime now);
  Chunks forget(const BundleId& bundle);
  void peer_lost(const NodeKey& peer);  // nobody to acknowledge to

 private:
  struct Entry {
    Chunk chunk;
    SteadyTime at;
    bool owed = false;  // an acknowledgement
  };
  using Entries = std::list<Entry>;
  using Key = std::pair<BundleId, std::uint32_t>;

  bool jammed(SteadyTime now) const { return !entries_.empty() && now - entries_.front().at > kJam; }
  Entries::iterator erase(Entries::iterator entry);
  void settle(SteadyTime now, Chunks& out);

  Entries entries_;  // oldest first
  std::map<Key, Entries::iterator> index_;
};

}  // namespace p2pw
