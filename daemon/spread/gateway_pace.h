// Which gateways of one region are slow themselves. All of them share the region's access, so what a chunk
// takes to each is the same but for the node's own cable, disk and processor, and for how much is under way
// to it. By Little's law, what is under way over what a chunk takes is the rate at which it takes chunks in.
// One whose chunks take longer than those of the best, and which takes in less as well, is behind.
//
// One that is behind has half as much under way as the others, so that it has less to bring when it is relieved;
// not less than half, since a connection that is merely cold would stay so.
//
// Pure: time is an argument, never earlier than before.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>

#include "daemon/spread/credit.h"
#include "protocol/ids.h"

namespace p2pw {

class GatewayPace {
 public:
  static constexpr std::chrono::minutes kRest{5};  // then it is tried again

  void sent(const NodeKey& gateway, std::uint64_t bytes, SteadyTime now);
  void acked(const NodeKey& gateway, std::uint64_t bytes, SteadyTime sent, SteadyTime now);
  void lost(const NodeKey& gateway, std::uint64_t bytes, SteadyTime sent);

  bool behind(const NodeKey& gateway, SteadyTime now) const;
  // The region would have waited for it: for a while it is given nothing while there is another.
  void rest(const NodeKey& gateway, SteadyTime now) { entries_[gateway].rests_until = now + kRest; }
  bool rests(const NodeKey& gateway, SteadyTime now) const;
  double rate(const NodeKey& gateway, SteadyTime now) const;  // bytes per second; 0 when unknown
  std::uint64_t under_way(const NodeKey& gateway) const;
  void forget(const NodeKey& gateway) { entries_.erase(gateway); }

 private:
  struct Entry {
    std::multiset<SteadyTime> sent;  // what is under way
    std::uint64_t bytes = 0;
    int acked = 0;           // since it had nothing to do for a while
    double seconds = 0;      // that a chunk takes, of late
    double usual_bytes = 0;  // under way meanwhile
    SteadyTime heard{}, rests_until{};
  };
  // What a chunk takes, at least as long as the oldest one has been under way: one that has stopped
  // acknowledges nothing.
  static double takes(const Entry& entry, SteadyTime now);
  static double rate_of(const Entry& entry, SteadyTime now);
  struct Best {
    double seconds = 0, rate = 0;  // 0: there is none
  };
  Best best_other(const NodeKey& gateway, SteadyTime now) const;  // of late

  std::map<NodeKey, Entry> entries_;
};

}  // namespace p2pw
