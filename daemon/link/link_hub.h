// Links to other daemons: TLS 1.3 with node keys, proven fleet membership, one control connection and several striped
// ones for chunks, kept warm. The hub dials, accepts, authenticates, frames, measures and reconnects; what the messages
// mean is for its LinkHandler. Tests and the fleet simulation have their own LinkHub.
//
// Threads: everything on the control thread. Nothing blocks.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "protocol/ids.h"
#include "protocol/links.pb.h"
#include "protocol/placement.h"

namespace p2pw {

struct LinkEndpoint {
  std::string host;  // IP literal or name
  std::uint16_t port = 0;
  auto operator<=>(const LinkEndpoint&) const = default;
};

// A buffer shared by everything that still has to write it.
using SharedBytes = std::shared_ptr<const Bytes>;

struct LinkStats {
  std::chrono::microseconds round_trip{0};    // smoothed; 0 = not measured yet
  std::chrono::microseconds clock_offset{0};  // peer's wall clock minus ours
  std::uint64_t rate_bits = 0;                // recent delivery rate of chunks towards the peer
  std::uint32_t stripes = 0;
  std::uint64_t control_sent = 0, control_received = 0;  // bytes of messages, framing included
  std::uint64_t payload_sent = 0, payload_received = 0;  // chunk payload, counted when the kernel has taken it
  std::uint64_t bulk_sent = 0, bulk_received = 0;        // other payload on stripes: slabs
  std::uint64_t stripe_queue = 0;             // bytes handed over and not yet written
  std::uint64_t retransmitted = 0;            // segments, of the stripes that stand
  std::string congestion;                     // what the stripes use now
};

class LinkHandler {
 public:
  virtual ~LinkHandler() = default;
  // Authenticated both ways, `hello` is the peer's own (region and roles already corrected by the allow-list).
  virtual void link_up(const NodeKey& peer, const wire::Hello& hello) = 0;
  virtual void link_down(const NodeKey& peer, const Error& reason) = 0;
  // A framed message of an authenticated peer; heartbeats are the hub's own and do not come here.
  virtual void link_message(const NodeKey& peer, const wire::LinkMessage& message, Bytes payload) = 0;
  // A token's bearer, proven by its enrolment secret, asks to join. The reply, or why not.
  virtual Result<wire::EnrolReply> link_enrol(const Bytes& enrolment_id, const NodeKey& peer) = 0;
};

class LinkHub {
 public:
  virtual ~LinkHub() = default;
  // Keeps a link to this daemon until undial(): dials now, and again after every loss with a short, growing pause.
  // `expected`: refuse any other key. Dialling a key that is already linked does nothing.
  virtual void dial(const LinkEndpoint& endpoint, std::optional<NodeKey> expected) = 0;
  virtual void undial(const NodeKey& peer) = 0;
  virtual void undial(const LinkEndpoint& endpoint) = 0;
  virtual bool linked(const NodeKey& peer) const = 0;
  virtual std::vector<NodeKey> links() const = 0;

  // On the control connection, in order; never behind chunks. Dropped silently when there is no link.
  virtual void send(const NodeKey& peer, const wire::LinkMessage& message, SharedBytes payload = {}) = 0;
  // On the first stripe that has room. Chunks may overtake each other. False when there is no link or its queue is full.
  virtual bool send_chunk(const NodeKey& peer, const wire::Chunk& chunk, SharedBytes payload) = 0;
  // The same lane for other bulk: a slab for a joiner.
  virtual bool send_bulk(const NodeKey& peer, const wire::LinkMessage& message, SharedBytes payload) = 0;

  // Forgets what is queued for this peer's stripes and has not been written: its lease is gone.
  virtual void cut_queue(const NodeKey& peer, const BundleId& bundle) = 0;
  virtual void drop(const NodeKey& peer, const Error& reason) = 0;  // closes; dialled ones are dialled again
  virtual void ban(const NodeKey& peer, const std::string& reason) = 0;

  // Of any peer that was ever linked; the counters go on over all its links.
  virtual std::optional<LinkStats> stats(const NodeKey& peer) const = 0;
  // When the last byte came from this peer; nothing when there is no link.
  virtual std::optional<std::chrono::steady_clock::time_point> last_heard(const NodeKey& peer) const = 0;
};

}  // namespace p2pw
