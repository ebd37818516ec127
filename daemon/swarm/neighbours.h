// The region's members as the swarm sees them, and the rule who dials whom.
//
// Among those that share a bundle: up to kMesh nodes, everybody is connected to everybody. In a larger region,
// each bundle has kRings rings (all nodes in the order of a hash of bundle, ring and key), and a node dials the
// one that follows it in each: every node then has about 2 kRings neighbours, and a chunk reaches the last of a
// thousand in three or four hops. Of two nodes that would dial each other, the one with the smaller key does: connections that
// cross would both be closed by libtorrent as duplicates. The other side dials only in answer to a dial that
// it had to refuse.
//
// Also when to dial again: a few times within a second, then it is left to libtorrent's own slow round.
//
// Pure values: no sockets, no clock of their own.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>
#include <vector>

#include "daemon/swarm/swarm.h"

namespace p2pw {

class Neighbours {
 public:
  static constexpr std::size_t kMesh = 24;
  static constexpr std::uint32_t kRings = 8;

  explicit Neighbours(NodeKey self) : self_(self) {}

  struct Change {
    std::vector<SwarmPeer> joined, left;
  };
  // Members that moved to another address have left and joined. This node itself and doubles are dropped.
  Change set(std::vector<SwarmPeer> members);

  const std::vector<SwarmPeer>& all() const { return members_; }
  // Whom this node dials for a bundle: of those that share it.
  std::vector<SwarmPeer> to_dial(const BundleId& bundle, SwarmGroups group) const;
  const SwarmPeer* find(const NodeKey& key) const;
  const SwarmPeer* find(std::string_view address, std::uint16_t port) const;
  std::vector<SwarmPeer> at(std::string_view address) const;
  bool knows(std::string_view address) const { return !at(address).empty(); }

 private:
  NodeKey self_;
  std::vector<SwarmPeer> members_;  // by key
};

class DialTimer {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kFirst{10};
  static constexpr std::chrono::milliseconds kLast{640};
  static constexpr int kGrowth = 4;

  // There is a new reason to dial: begin with short waits again.
  void restart() { wait_ = kFirst; }
  // Somebody is not connected: plans the next dial, unless one is planned or the short waits are used up.
  void plan(Clock::time_point now) {
    if (at_ || wait_ > kLast) return;
    at_ = now + wait_;
    wait_ *= kGrowth;
  }
  // True once, when a planned dial is due.
  bool due(Clock::time_point now) {
    if (!at_ || now < *at_) return false;
    at_.reset();
    return true;
  }
  std::optional<Clock::time_point> at() const { return at_; }

 private:
  std::chrono::milliseconds wait_ = kFirst;
  std::optional<Clock::time_point> at_;
};

// Whether a neighbour that owes us blocks still delivers.
class Owed {
 public:
  using Clock = std::chrono::steady_clock;
  void requested(Clock::time_point now) {
    if (blocks_++ == 0) since_ = now;
  }
  void answered(Clock::time_point now) {  // a block, or a refusal
    if (blocks_ > 0) --blocks_;
    since_ = now;
  }
  void cleared() { blocks_ = 0; }
  // We were not looking ourselves: begin to wait now.
  void excuse(Clock::time_point now) { since_ = now; }
  bool stalled(Clock::time_point now, Clock::duration patience) const {
    return blocks_ > 0 && now - since_ >= patience;
  }

 private:
  std::uint32_t blocks_ = 0;
  Clock::time_point since_{};
};

}  // namespace p2pw
