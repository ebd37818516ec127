#include "daemon/link/link.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "daemon/link/printable.h"
#include "daemon/link/tcp_tools.h"
#include "daemon/link/tuning.h"

namespace p2pw {
namespace {

std::uint64_t wall_clock_us() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

}  // namespace

Link::Link(const ProvenPeer& peer, std::shared_ptr<Connection> control, std::optional<LinkEndpoint> dialled,
           LinkTuning tuning, LinkTotals& totals, Owner& owner)
    : peer_(peer),
      control_(std::move(control)),
      dialled_(std::move(dialled)),
      tuning_(std::move(tuning)),
      totals_(totals),
      owner_(owner),
      since_(std::chrono::steady_clock::now()),
      last_heard_(since_) {
  control_->set_user(*this);
  control_->set_proven();
  if (tuning_.control_unsent > 0) set_unsent_low_water(control_->socket_handle(), tuning_.control_unsent);
}

Link::~Link() {
  close();
}

void Link::begin() {
  measure(since_);
  send_heartbeat();
}

void Link::add_stripe(std::shared_ptr<Connection> stripe) {
  stripe->set_user(*this);
  stripe->set_proven();
  set_unsent(*stripe, 0);
  if (!congestion_.empty()) set_congestion(stripe->socket_handle(), congestion_.c_str());
  if (tuning_.warm_up) warm_up_.begin(stripe.get());
  stripes_.push_back(std::move(stripe));
  stripes_.back()->wake();
  tune_congestion();
}

// Sending.

void Link::send(Outgoing item) {
  if (over_) return;
  control_->send(std::move(item));
  if (control_->queued_bytes() > tuning_.max_control_queue) {
    broken(fail(ErrorCode::limit, "node " + peer().short_hex() + " does not take its control messages"));
  }
}

bool Link::send_bulk(Outgoing item) {
  if (over_ || backlog_ + item.size() > tuning_.max_stripe_queue) return false;
  backlog_ += item.size();
  queue_.push(std::move(item));
  wake_stripes();
  return true;
}

void Link::cut(const BundleId& bundle) {
  std::uint64_t removed = queue_.cut(bundle);
  for (auto& stripe : stripes_) removed += stripe->cut(bundle);
  backlog_ -= std::min(backlog_, removed);
}

void Link::wake_stripes() {
  for (auto& stripe : stripes_) stripe->wake();
}

std::optional<Outgoing> Link::next(Connection& connection) {
  if (&connection == control_.get()) return std::nullopt;
  if (auto item = queue_.pop()) return item;
  auto padding = warm_up_.next(&connection);
  if (padding) backlog_ += padding->size();
  return padding;
}

std::size_t Link::allowance(Connection&) {
  return owner_.link_allowance(*this);
}

void Link::written(Connection& connection, const Connection::Written& written) {
  totals_.payload_sent += written.chunk_payload;
  totals_.bulk_sent += written.bulk_payload;
  totals_.control_sent += written.rest;
  if (&connection == control_.get()) return;
  backlog_ -= std::min(backlog_, written.total());
  owner_.link_spent(*this, written.chunk_payload + written.bulk_payload);
  const Time now = std::chrono::steady_clock::now();
  if (meter_.due(now)) measure(now);
}

// Receiving.

void Link::received(Connection& connection, Frame frame) {
  auto message = parse_link_message(frame.header, frame.payload.size());
  if (!message) {
    Error why = std::move(message).error();
    why.message = "node " + peer().short_hex() + " sent " + why.message;
    connection.close();
    return broken(why);
  }
  count_received(*message, frame.header.size(), frame.payload.size());
  if (message->has_heartbeat()) {
    peer_wants_stripes_ = message->heartbeat().stripes();
    const bool first = clock_.heard(message->heartbeat(), wall_clock_us());
    if (first) send_heartbeat();  // its echo gives the peer a round trip at once
    return;
  }
  if (message->has_padding()) return;
  if (message->has_goodbye()) {
    return broken(fail(ErrorCode::interrupted, "node " + peer().short_hex() + " closed the link: " +
                                                   printable(message->goodbye().reason())));
  }
  owner_.link_said(*this, *message, std::move(frame.payload));
}

void Link::count_received(const wire::LinkMessage& message, std::size_t header, std::size_t payload) {
  totals_.control_received += kFramePrefixBytes + header;
  (message.has_chunk()  ? totals_.payload_received
   : message.has_slab() ? totals_.bulk_received
                        : totals_.control_received) += payload;
}

// Keeping.

void Link::send_heartbeat() {
  wire::LinkMessage message;
  clock_.stamp(*message.mutable_heartbeat(), wall_clock_us());
  message.mutable_heartbeat()->set_rate_bits(stats().rate_bits);
  message.mutable_heartbeat()->set_stripes(stripes_wanted());
  auto head = frame_head(message, 0);
  if (!head) return;
  // Ahead of a long queue, but never ahead of the handshake's answer, which may still be in it.
  if (clock_.heard_any()) {
    control_->send_first(Outgoing{.head = std::move(*head)});
  } else {
    control_->send(Outgoing{.head = std::move(*head)});
  }
}

void Link::tick(Time now) {
  if (over_) return;
  send_heartbeat();
  measure(now);
  tune_congestion();
}

void Link::measure(Time now) {
  kernel_round_trip_ = measure_tcp(control_->socket_handle()).round_trip;
  std::uint64_t acked = 0, rate = 0;
  segments_ = retransmitted_ = 0;
  for (auto& stripe : stripes_) {
    const TcpMeasured tcp = measure_tcp(stripe->socket_handle());
    acked += tcp.bytes_acked;
    rate = std::max(rate, tcp.delivery_rate_bits);  // one alone: they share the path
    segments_ += tcp.segments_sent;
    retransmitted_ += tcp.retransmitted;
    set_unsent(*stripe, tcp.delivery_rate_bits);
  }
  kernel_rate_bits_ = rate;
  meter_.sample(now, acked);
}

void Link::set_unsent(Connection& stripe, std::uint64_t rate_bits) {
  const std::uint32_t bytes = tuning_.stripe_unsent > 0 ? tuning_.stripe_unsent : unsent_for(rate_bits);
  set_unsent_low_water(stripe.socket_handle(), bytes);
}

PathSeen Link::path() const {
  return {.segments = segments_,
          .retransmitted = retransmitted_,
          .round_trip = clock_.measured() ? clock_.round_trip() : kernel_round_trip_,
          .lossy = lossy_};
}

void Link::tune_congestion() {
  lossy_ = is_lossy(path());
  const std::string wanted = choose_congestion(tuning_.congestion, path());
  if (wanted == congestion_ || wanted.empty() || stripes_.empty()) return;
  congestion_ = wanted;
  bool done = true;
  for (auto& stripe : stripes_) done = set_congestion(stripe->socket_handle(), wanted.c_str()) && done;
  if (!done && !std::exchange(congestion_refused_, true)) {
    spdlog::warn(
        "links: the kernel does not let this process use {} for congestion control; it stays with {} (root, "
        "or "
        "net.ipv4.tcp_allowed_congestion_control, would allow it)",
        wanted, congestion_of(stripes_.front()->socket_handle()));
  }
}

std::uint32_t Link::stripes_wanted() const {
  const std::uint32_t ours =
      p2pw::stripes_wanted(tuning_.stripes, path(), stats().rate_bits, tuning_.wmem_max);
  return std::max(ours, std::min(peer_wants_stripes_, kMaxStripes));
}

std::size_t Link::held() const {
  std::size_t total = control_->held();
  for (const auto& stripe : stripes_) total += stripe->held();
  return total;
}

LinkStats Link::stats() const {
  LinkStats stats;
  stats.round_trip = path().round_trip;
  stats.clock_offset = clock_.clock_offset();
  stats.rate_bits = std::max(meter_.rate_bits(), kernel_rate_bits_);
  stats.stripes = static_cast<std::uint32_t>(stripes_.size());
  stats.stripe_queue = backlog_;
  stats.retransmitted = retransmitted_;
  if (!stripes_.empty()) stats.congestion = congestion_of(stripes_.front()->socket_handle());
  add_totals(stats, totals_);
  return stats;
}

void Link::add_totals(LinkStats& stats, const LinkTotals& totals) {
  stats.control_sent = totals.control_sent;
  stats.control_received = totals.control_received;
  stats.payload_sent = totals.payload_sent;
  stats.payload_received = totals.payload_received;
  stats.bulk_sent = totals.bulk_sent;
  stats.bulk_received = totals.bulk_received;
}

// Ending.

void Link::closed(Connection&, const Error& reason) {
  broken(fail(reason.code, "link with node " + peer().short_hex() + ": " + reason.message));
}

void Link::broken(const Error& reason) {
  if (over_) return;
  close();
  owner_.link_broken(*this, reason);
}

void Link::close() {
  if (std::exchange(over_, true)) return;
  for (auto& stripe : stripes_) stripe->close();
  control_->close();
}

void Link::say_goodbye(const std::string& why) {
  if (over_) return;
  over_ = true;
  wire::LinkMessage message;
  message.mutable_goodbye()->set_reason(why.substr(0, 160));
  auto head = frame_head(message, 0);
  // A stripe that closes before the peer has read the reason would be taken for the reason.
  for (auto& stripe : stripes_) stripe->silence();
  control_->finish(head ? std::optional(Outgoing{.head = std::move(*head)}) : std::nullopt,
                   [stripes = std::move(stripes_)] {
                     for (auto& stripe : stripes) stripe->close();
                   });
  stripes_.clear();
}

}  // namespace p2pw
