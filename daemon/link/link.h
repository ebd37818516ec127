// A standing link to one proven peer: its control connection, its stripes, what waits for them, and what is
// measured. The link is one unit: when its control connection or a stripe breaks, all of it is down, so that
// a chunk is never lost in silence.
//
// Chunks wait in one queue of the link; a stripe takes the next one when it has room, so a slow stripe holds
// up no more than the chunk that it has begun.
//
// Owned by the hub, on its thread.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "daemon/link/clock_sync.h"
#include "daemon/link/connection.h"
#include "daemon/link/handshake.h"
#include "daemon/link/link_hub.h"
#include "daemon/link/rate_meter.h"
#include "daemon/link/tuning.h"
#include "daemon/link/warm_up.h"

namespace p2pw {

// Of one peer, over all its links since the start.
struct LinkTotals {
  std::uint64_t control_sent = 0, control_received = 0;
  std::uint64_t payload_sent = 0, payload_received = 0;
  std::uint64_t bulk_sent = 0, bulk_received = 0;
};

struct LinkTuning {
  std::uint32_t stripes = 0;        // at least so many
  std::string congestion = "auto";  // see choose_congestion()
  std::uint32_t stripe_unsent = 0;  // TCP_NOTSENT_LOWAT of stripes; 0 = unsent_for() their rate
  std::uint32_t control_unsent = 0;
  std::uint64_t wmem_max = 0;
  bool warm_up = false;  // see WarmUp
  std::size_t max_control_queue = 0;
  std::size_t max_stripe_queue = 0;
};

class Link final : public Connection::User {
 public:
  using Time = std::chrono::steady_clock::time_point;

  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void link_said(Link& link, const wire::LinkMessage& message, Bytes payload) = 0;
    // Called once; the link is of no further use. Not after close().
    virtual void link_broken(Link& link, const Error& reason) = 0;
    // Payload that this link's stripes may write now; the owner wakes the link when it said 0.
    virtual std::size_t link_allowance(Link& link) = 0;
    virtual void link_spent(Link& link, std::uint64_t payload) = 0;
    // All links together hold too much of unfinished messages; ends one or more of them.
    virtual void links_hold_too_much() = 0;
  };

  // `dialled`: where we found the peer; nothing when it found us.
  Link(const ProvenPeer& peer, std::shared_ptr<Connection> control, std::optional<LinkEndpoint> dialled,
       LinkTuning tuning, LinkTotals& totals, Owner& owner);
  ~Link() override;

  void begin();  // first heartbeat; the owner knows the link by now
  void add_stripe(std::shared_ptr<Connection> stripe);

  void send(Outgoing item);
  bool send_bulk(Outgoing item);  // false: the queue is full
  void cut(const BundleId& bundle);
  void wake_stripes();

  // Every heartbeat interval.
  void tick(Time now);
  std::uint32_t stripes_wanted() const;

  void close();                              // at once
  void say_goodbye(const std::string& why);  // and close

  const NodeKey& peer() const { return peer_.key(); }
  const wire::Hello& hello() const { return peer_.hello(); }
  const SecretId& secret_id() const { return peer_.secret_id(); }
  const std::optional<LinkEndpoint>& dialled() const { return dialled_; }
  std::size_t held() const;  // bytes of unfinished messages
  std::size_t stripe_count() const { return stripes_.size(); }
  Time since() const { return since_; }
  Time last_heard() const { return last_heard_; }
  void forgive_silence(Time now) { last_heard_ = now; }
  LinkStats stats() const;
  static void add_totals(LinkStats& stats, const LinkTotals& totals);

 private:
  void secured(Connection&) override {}
  void received(Connection& connection, Frame frame) override;
  void received_bytes(Connection&) override { last_heard_ = std::chrono::steady_clock::now(); }
  std::optional<Outgoing> next(Connection& connection) override;
  std::size_t allowance(Connection& connection) override;
  void written(Connection& connection, const Connection::Written& written) override;
  void holds_too_much(Connection&) override { owner_.links_hold_too_much(); }
  void closed(Connection& connection, const Error& reason) override;

  void broken(const Error& reason);
  void send_heartbeat();
  void count_received(const wire::LinkMessage& message, std::size_t header, std::size_t payload);
  void measure(Time now);
  void set_unsent(Connection& stripe, std::uint64_t rate_bits);
  PathSeen path() const;
  void tune_congestion();

  ProvenPeer peer_;
  std::shared_ptr<Connection> control_;
  std::vector<std::shared_ptr<Connection>> stripes_;
  std::optional<LinkEndpoint> dialled_;
  LinkTuning tuning_;
  LinkTotals& totals_;
  Owner& owner_;

  SendQueue queue_;            // of chunks and other bulk
  std::uint64_t backlog_ = 0;  // bytes handed over and not yet written
  WarmUp warm_up_;
  ClockSync clock_;
  RateMeter meter_;
  std::uint64_t kernel_rate_bits_ = 0;
  std::chrono::microseconds kernel_round_trip_{0};
  std::uint64_t segments_ = 0, retransmitted_ = 0;
  std::string congestion_;  // asked for
  bool lossy_ = false;
  std::uint32_t peer_wants_stripes_ = 0;
  bool congestion_refused_ = false;
  Time since_;
  Time last_heard_;
  bool over_ = false;
};

}  // namespace p2pw
