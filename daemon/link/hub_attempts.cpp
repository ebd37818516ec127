#include <spdlog/spdlog.h>

#include "daemon/link/hub_state.h"
#include "daemon/link/pairing.h"
#include "daemon/link/printable.h"

namespace p2pw {

using boost::asio::ip::tcp;

namespace {

// Ends an attempt that nobody is to blame for; not worth a line in the log.
Error linked_already() {
  return fail(ErrorCode::busy, "linked with this node already");
}

}  // namespace

// Coming and going.

void TlsLinkHub::Impl::accepted(tcp::socket socket) {
  ++counters_.accepted;
  boost::system::error_code error;
  const std::string address = socket.remote_endpoint(error).address().to_string();
  if (error || stopping_) return;
  const auto turned_away = [&](const char* why) {
    ++counters_.turned_away;
    note_refusal(address, fail(ErrorCode::busy, why));
  };
  if (connection_count() >= options_.max_connections) return turned_away("too many connections");
  switch (admission_.enter(address, std::chrono::steady_clock::now())) {
    case Admission::Verdict::turn_away:
      return turned_away("too many connections from there that have not proven themselves");
    case Admission::Verdict::evict:
      evict_oldest();
      break;
    case Admission::Verdict::enter:
      break;
  }
  begin(std::move(socket), Handshake::respond(trust_, options_.hello)).address = address;
}

void TlsLinkHub::Impl::evict_oldest() {
  for (const auto& [age, entry] : pending_) {
    if (!entry.incoming() || entry.attempt->handshake().state() == Handshake::State::deciding) continue;
    ++counters_.turned_away;
    note_refusal(entry.address,
                 fail(ErrorCode::busy, "too many connections that have not proven themselves"));
    const auto attempt = entry.attempt;
    attempt->cancel();
    forget(attempt);
    return;
  }
}

TlsLinkHub::Impl::Pending& TlsLinkHub::Impl::begin(tcp::socket socket, Handshake handshake) {
  Pending& entry = pending_[++count_];
  entry.attempt = std::make_shared<Attempt>(std::move(socket), tls_, std::move(handshake), scratch_, *this);
  entry.attempt->start(options_.timing.handshake);
  return entry;
}

TlsLinkHub::Impl::Pending* TlsLinkHub::Impl::pending(const Attempt& attempt) {
  for (auto& [age, entry] : pending_) {
    if (entry.attempt.get() == &attempt) return &entry;
  }
  return nullptr;
}

// True when it was an incoming one.
bool TlsLinkHub::Impl::forget(const std::shared_ptr<Attempt>& attempt) {
  auto it = std::find_if(pending_.begin(), pending_.end(),
                         [&](const auto& e) { return e.second.attempt == attempt; });
  if (it == pending_.end()) return false;
  const Pending entry = std::move(it->second);
  pending_.erase(it);
  if (entry.incoming()) admission_.leave(entry.address);
  if (entry.stripe_of) --peers_[*entry.stripe_of].stripes_proving;
  return entry.incoming();
}

// Ends an attempt and, when it was a dialled one, lets the dialler go on.
void TlsLinkHub::Impl::give_up(const std::shared_ptr<Attempt>& attempt, const Error& reason) {
  attempt->cancel();
  forget(attempt);
  if (attempt->target) dialer_.attempt_over(*attempt->target, reason);
}

void TlsLinkHub::Impl::stop_attempts(const NodeKey& peer) {
  for (const auto& attempt : attempts_where([&](const Handshake& h) { return h.peer_key() == peer; })) {
    give_up(attempt, linked_already());
  }
}

void TlsLinkHub::Impl::note_refusal(const std::string& who, const Error& reason) {
  refusals_.note(who, reason);
}

void TlsLinkHub::Impl::attempt_failed(const std::shared_ptr<Attempt>& attempt, const Error& reason) {
  const NodeKey peer = attempt->handshake().peer_key();
  const Pending* entry = pending(*attempt);
  const bool stripe = entry != nullptr && entry->stripe_of.has_value();
  const bool incoming = forget(attempt);
  if (incoming && reason.code == ErrorCode::io) {
    ++counters_.abandoned;
    spdlog::debug("links: a connection from {} ended unproven: {}", attempt->remote_address(),
                  reason.message);
  } else if (incoming) {
    ++counters_.refused;
    ++counters_.refused_by_code[std::string(name_of(reason.code))];
    note_refusal(attempt->remote_address(), reason);
  } else if (stripe) {
    stripe_failed(peer, reason);
  } else if (attempt->target) {
    dialer_.attempt_over(*attempt->target, reason);
  }
  reconsider_parked(peer);
}

// Dialling.

void TlsLinkHub::Impl::dial_connected(const LinkEndpoint& target, const std::optional<NodeKey>& expected,
                                      std::size_t tries, tcp::socket socket) {
  auto handshake = Handshake::initiate(
      trust_, options_.hello,
      {.purpose = LinkPurpose::control, .expected = expected, .attempt = tries, .ticket = {}});
  begin(std::move(socket), std::move(handshake)).attempt->target = target;
}

void TlsLinkHub::Impl::dial_failed(const LinkEndpoint& target, const Error& reason, bool first) {
  if (reason.code == ErrorCode::busy) return;
  ++counters_.dials_failed;
  spdlog::log(first ? spdlog::level::warn : spdlog::level::debug, "links: dialling {}: {}", to_string(target),
              reason.message);
}

std::size_t TlsLinkHub::Impl::offers_out(const NodeKey& peer) const {
  return attempts_where([&](const Handshake& h) {
           return h.state() == Handshake::State::awaiting_answer && h.purpose() == LinkPurpose::control &&
                  h.peer_key() == peer;
         })
      .size();
}

Status TlsLinkHub::Impl::attempt_may_offer(Attempt& attempt) {
  const NodeKey peer = attempt.handshake().peer_key();
  if (attempt.handshake().purpose() == LinkPurpose::stripe) {
    return link(peer) != nullptr ? Status() : fail(ErrorCode::interrupted, "the link has ended");
  }
  if (attempt.target && !dialer_.wants(*attempt.target))
    return fail(ErrorCode::interrupted, "not wanted any more");
  if (attempt.target) dialer_.learned(*attempt.target, peer);
  // This attempt is one of the offers already.
  if (link(peer) != nullptr || offers_out(peer) > 1) return linked_already();
  return {};
}

void TlsLinkHub::Impl::attempt_proven(const std::shared_ptr<Attempt>& attempt) {
  const NodeKey peer = attempt->handshake().peer_key();
  const bool standing = link(peer) != nullptr;
  if (attempt->handshake().purpose() == LinkPurpose::stripe) {
    if (standing) return stripe_up(attempt);
  } else if (!standing && attempt->target && dialer_.wants(*attempt->target)) {
    return link_up(attempt);
  }
  give_up(attempt, linked_already());
}

// Deciding.

void TlsLinkHub::Impl::attempt_decide(const std::shared_ptr<Attempt>& attempt) {
  switch (attempt->handshake().purpose()) {
    case LinkPurpose::control:
      return decide_control(attempt);
    case LinkPurpose::stripe:
      return decide_stripe(attempt);
    case LinkPurpose::enrol:
      return decide_enrol(attempt);
  }
}

void TlsLinkHub::Impl::decide_control(const std::shared_ptr<Attempt>& attempt) {
  const NodeKey peer = attempt->handshake().peer_key();
  PairSituation now{.own_key_is_smaller = trust_.own_key() < peer, .offer_out = offers_out(peer) > 0};
  if (const Link* standing = link(peer)) {
    const auto silent = std::chrono::steady_clock::now() - standing->last_heard();
    now.linked = true;
    now.linked_by_us = standing->dialled().has_value();
    now.silent_for = std::chrono::duration_cast<std::chrono::milliseconds>(silent);
  }
  switch (judge_offer(now)) {
    case PairVerdict::park:
      return;
    case PairVerdict::refuse:
      return give_up(attempt, linked_already());
    case PairVerdict::replace:
      remove_link(peer, fail(ErrorCode::interrupted, "node " + peer.short_hex() + " has opened a new link"));
      break;
    case PairVerdict::accept:
      break;
  }
  if (attempt->answer()) link_up(attempt);
}

void TlsLinkHub::Impl::reconsider_parked(const NodeKey& peer) {
  const auto parked = attempts_where([&](const Handshake& h) {
    return h.state() == Handshake::State::deciding && h.purpose() == LinkPurpose::control &&
           h.peer_key() == peer;
  });
  for (const auto& attempt : parked) {
    if (attempt->handshake().state() == Handshake::State::deciding) decide_control(attempt);
  }
}

void TlsLinkHub::Impl::decide_stripe(const std::shared_ptr<Attempt>& attempt) {
  const NodeKey peer = attempt->handshake().peer_key();
  const Link* standing = link(peer);
  if (standing == nullptr || standing->stripe_count() >= kMaxStripes) {
    ++counters_.refused;
    ++counters_.refused_by_code[std::string(name_of(ErrorCode::untrusted))];
    note_refusal(
        "node " + peer.short_hex(),
        fail(ErrorCode::untrusted, standing == nullptr ? "a stripe without a link" : "too many stripes"));
    return give_up(attempt, linked_already());
  }
  if (attempt->answer()) stripe_up(attempt);
}

void TlsLinkHub::Impl::decide_enrol(const std::shared_ptr<Attempt>& attempt) {
  const ProvenPeer peer = attempt->handshake().peer();
  if (!attempt->answer()) return;
  const auto connection = attempt->release();
  forget(attempt);
  const EnrolmentId& id = peer.enrolment_id();
  wire::LinkMessage message;
  events_.drain();
  auto reply = handler_.link_enrol(Bytes(id.view().begin(), id.view().end()), peer.key());
  if (reply) {
    *message.mutable_enrol_reply() = std::move(*reply);
    ++counters_.enrolled;
    spdlog::info("links: node {} has enrolled with token {}", peer.key().short_hex(), id.hex());
  } else {
    message.mutable_goodbye()->set_reason(reply.error().message);
    note_refusal("node " + peer.key().short_hex(), reply.error());
  }
  auto head = frame_head(message, 0);
  if (!head) spdlog::error("links: the answer to an enrolment is too large: {}", head.error().message);
  connection->finish(head ? std::optional(Outgoing{.head = std::move(*head)}) : std::nullopt);
}

void TlsLinkHub::Impl::link_up(const std::shared_ptr<Attempt>& attempt) {
  const ProvenPeer peer = attempt->handshake().peer();
  auto connection = attempt->release();
  forget(attempt);
  Peer& entry = peers_[peer.key()];
  entry.link = std::make_unique<Link>(peer, std::move(connection), attempt->target, tuning_for(peer.hello()),
                                      entry.totals, *this);
  entry.stripe_backoff.reset();
  entry.next_stripe = {};
  ++counters_.links_up;
  spdlog::info("links: up with node {} ({}, region {}), {}", peer.key().short_hex(),
               printable(peer.hello().name()), peer.hello().region(),
               attempt->target ? "dialled at " + to_string(*attempt->target) : std::string("which dialled"));
  entry.link->begin();
  dialer_.link_up(peer.key());
  // Ours that lost, and offers that waited for this.
  const auto others = attempts_where(
      [&](const Handshake& h) { return h.peer_key() == peer.key() && h.purpose() == LinkPurpose::control; });
  for (const auto& other : others) give_up(other, linked_already());
  events_.add([this, key = peer.key(), hello = peer.hello()] { handler_.link_up(key, hello); });
  open_stripes(peer.key());
}

}  // namespace p2pw
