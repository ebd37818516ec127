// Which gateways of one region fall behind, from what each has acknowledged in the same time. A node with a slow cable or
// disk would hold up its whole region with the bundles that it was to take in.
//
// Compared are only gateways that had something under way, and more ready for them, all the time: the upstream shares its
// window out evenly, so one that acknowledges less than half of what the best does in two periods running, and no longer gets
// faster as cold connections do, is slow itself. How much the whole region gets counts only where no other upstream
// shares its access: when the others have nothing left to take there, and the region gets clearly less than it did, whoever is
// still busy is what it waits for.
//
// Pure: time is an argument.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "daemon/spread/credit.h"
#include "protocol/ids.h"

namespace p2pw {

class GatewayPace {
 public:
  static constexpr std::chrono::milliseconds kPeriod{1000};
  static constexpr std::chrono::minutes kSlowFor{5};  // until it is tried again

  void acked(const NodeKey& gateway, std::uint64_t bytes);
  // Called often. `busy`: gateways with something under way, and more ready for them. `idle`: no other upstream feeds the
  // region, and some gateway there has nothing to take; asked only when it matters. `chunk`: the bytes of one; when the best took fewer than two of them
  // nobody is judged. Returns those that turn out to be slow, once each.
  std::vector<NodeKey> look(const std::set<NodeKey>& busy, const std::function<bool()>& idle, std::uint64_t chunk,
                            std::chrono::microseconds round_trip, SteadyTime now);
  bool slow(const NodeKey& gateway, SteadyTime now) const;

 private:
  struct Entry {
    std::uint64_t acked = 0, before = 0;  // in this period and the one before
    bool busy_throughout = true;
    int strikes = 0;
    SteadyTime slow_until{};
  };
  std::vector<NodeKey> judge(const std::function<bool()>& idle, std::uint64_t chunk, SteadyTime now);

  std::map<NodeKey, Entry> entries_;
  SteadyTime since_{};
  bool running_ = false;
  double best_rate_ = 0;  // of the region, in bytes per second, since it began to be busy
};

}  // namespace p2pw
