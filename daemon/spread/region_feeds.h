// All that one node feeds into one region: a feed for each bundle, the credit that they share, and which of
// them goes on next, or should go through another gateway. Pure decisions; leases and messages are Feeds'.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "daemon/spread/credit.h"
#include "daemon/spread/gateway_pace.h"
#include "daemon/spread/world.h"

namespace p2pw {

struct Feed {
  enum class State { unassigned, waiting, flowing, draining, recalled, done, declined };
  struct InFlight {
    SteadyTime at;
    std::uint32_t bytes;
  };
  BundleFacts bundle;
  Region region;
  State state = State::unassigned;
  Lease lease;
  ChunkSet held;    // by this node
  ChunkSet wanted;  // by the region and not yet sent under this lease
  std::map<std::uint32_t, InFlight> in_flight;
  std::uint32_t acked = 0;
  bool fresh = false;
  std::set<NodeKey> unwilling;  // gateways that have no use for it
  SteadyTime progress{};
  SteadyTime changed{};

  static const char* name_of(State state);
  bool promised() const;      // its gateway counts on what is still to come
  ChunkSet sendable() const;  // wanted there, and held here
  std::uint64_t wanted_bytes() const;
  std::uint64_t in_flight_bytes() const;
};

struct RegionFeeds {
  // Of each channel: oldest version first, deltas before anchors, then bundle order.
  struct Order {
    Channel channel;
    Kind kind;
    Version version;
    BundleIndex index;
    BundleId id;
    static Order of(const BundleFacts& b) { return {b.place.channel, b.kind, b.version, b.place.index, b.id}; }
    static Order last_of(const Channel& channel);  // not before any feed of the channel
    auto operator<=>(const Order& o) const {
      return std::tie(channel, o.kind, version, index, id) <=> std::tie(o.channel, kind, o.version, o.index, o.id);
    }
    bool operator==(const Order& o) const = default;
  };

  // No channel waits for another one's versions: each has its own lane to each gateway.
  using Lane = std::pair<Channel, NodeKey>;
  static Lane lane_of(const Feed& feed) { return {feed.bundle.place.channel, feed.lease.holder}; }

  explicit RegionFeeds(Credit::Options options) : credit(options) {}

  Credit credit;
  std::map<Order, Feed> feeds;
  // Those that are not done. Done ones stay for as long as their bundle is kept, which is many; every chunk
  // looks here.
  std::map<Order, Feed*> open;
  std::map<Lane, std::uint64_t> turn;  // bytes sent, for fairness
  SteadyTime heard{};                  // last acknowledgement of anybody there
  GatewayPace pace;

  // The feed whose next chunk goes out: the oldest one of each channel's first few gateways; among them, the one
  // of the lane that got least so far. None when the credit is used up.
  Feed* next(std::size_t parallel_gateways, SteadyTime now);
  void note_sent(Feed& feed, ChunkIndex chunk, SteadyTime now);
  void note_acked(Feed& feed, std::map<std::uint32_t, Feed::InFlight>::iterator chunk, SteadyTime now,
                  std::chrono::microseconds round_trip);
  // What is under way will not arrive, or not count, and is wanted still. Returns its bytes.
  std::uint64_t lose(Feed& feed);

  // Gateways that the region would wait for: behind, and done later, at the rate at which they take chunks
  // in, than all that is still to go into the region at the region's. For some time: what is slow for a
  // moment is a busy machine. Asked often.
  std::vector<NodeKey> too_slow(const std::function<std::chrono::microseconds(const NodeKey&)>& round_trip,
                                SteadyTime now);

 private:
  std::map<Lane, Feed*> heads(std::size_t parallel_gateways);
  std::uint64_t queued_for(const NodeKey& gateway) const;
  double seconds_left() const;
  bool region_waits_for(const NodeKey& gateway, std::chrono::microseconds round_trip, SteadyTime now) const;

  std::map<NodeKey, SteadyTime> slow_since_;
};

}  // namespace p2pw
