// What the spreading decisions see of the world, and nothing else: so that the daemon, the tests and the fleet simulation
// run the same code.
#pragma once

#include <chrono>
#include <vector>

#include "daemon/spread/chunk_set.h"
#include "daemon/spread/credit.h"
#include "protocol/lease.h"
#include "protocol/links.pb.h"
#include "protocol/placement.h"

namespace p2pw {

// One bundle as far as spreading cares.
struct BundleFacts {
  BundleId id;
  BundlePlace place;
  Version version;
  Kind kind = Kind::delta;
  std::uint64_t used_bytes = 0;
  std::uint32_t chunk_bytes = 0;
  std::uint32_t chunks = 0;
  Region home;  // the trainer's region
  bool pushed = true;  // false: only who asks for it gets it (an anchor besides a delta)

  std::uint32_t bytes_of(ChunkIndex i) const {
    std::uint64_t begin = std::uint64_t(i.value()) * chunk_bytes;
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(chunk_bytes, used_bytes - begin));
  }
};

class SpreadWorld {
 public:
  virtual ~SpreadWorld() = default;
  virtual SteadyTime now() const = 0;
  virtual const Member& self() const = 0;
  // All members that are not gone, this node included; suspects are marked.
  virtual const std::vector<Member>& members() const = 0;
  virtual bool linked(const NodeKey& peer) const = 0;
  virtual std::chrono::microseconds round_trip(const NodeKey& peer) const = 0;  // 0 = unknown

  virtual void send(const NodeKey& peer, const wire::LinkMessage& message) = 0;
  // Makes sure that the peer can understand chunks of this bundle: its records and meta go out before them.
  virtual void introduce(const NodeKey& peer, const BundleId& bundle) = 0;
  virtual bool send_chunk(const NodeKey& peer, const BundleId& bundle, ChunkIndex chunk, Epoch epoch) = 0;
  // A bundle that this node knows of, does not keep, and has no use for: it wants no chunk of it. Not one that is unknown,
  // or that it has yet to decide about.
  virtual bool unwanted(const BundleId& bundle) const = 0;
  // What is queued for this peer and not yet written is not worth writing any more.
  virtual void cut_queue(const NodeKey& peer, const BundleId& bundle) = 0;
  // For people and metrics: "lease", "gateway-change", "stall", ...
  virtual void note(const BundleId& bundle, const std::string& event, const std::string& detail) = 0;
};

struct SpreadOptions {
  TreeShape tree;
  std::size_t candidates = kGatewayCandidates;
  std::size_t parallel_gateways = 4;                  // gateways of one region that are fed at once
  std::chrono::milliseconds stall{2000};              // a feed without acknowledgement, on top of its round trips
  // A bundle that nobody takes in: while the trainer lives it, or whom it feeds, is about to give it to somebody.
  std::chrono::milliseconds unclaimed{1500}, unclaimed_trainer_lives{4000};
  // A neighbour's lease while nothing at all comes: it may have forgotten the bundle.
  std::chrono::milliseconds forgotten{60000};
  std::chrono::milliseconds poll{300};                // answers of neighbours about what they hold
  // An offer of a bundle that is not known here, or not decided about; less than the stall of whoever made it.
  std::chrono::milliseconds undecided{1500};
  // A region that has declined a bundle asks for it by itself when it needs it after all.
  std::chrono::milliseconds offer_again{60000};
  Credit::Options credit;
};

}  // namespace p2pw
