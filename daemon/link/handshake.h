// Who is there: what both ends of a fresh TLS session say and check before anything else is listened to.
// Pure: it sees keys, messages and LinkTrust, never a socket or a clock.
//
// The initiator proves itself first; a responder that does not accept the offer closes without a word, so a
// stranger learns nothing from it. Each proof is an HMAC over side, purpose, both keys and the session's
// exporter value: it is worth nothing in another session, in the other direction or for another purpose.
//
//   initiator: securing -> awaiting_answer -> proven
//   responder: securing -> awaiting_offer -> deciding -> proven
//   any of them -> refused
#pragma once

#include <memory>
#include <optional>

#include "daemon/link/tls.h"
#include "daemon/link/trust.h"
#include "protocol/link_proof.h"
#include "protocol/links.pb.h"

namespace p2pw {

// A token's way in.
struct EnrolmentTicket {
  EnrolmentId id;
  EnrolmentSecret secret;
};

// A peer that has proven itself. Only Handshake makes one.
class ProvenPeer {
 public:
  const NodeKey& key() const { return key_; }
  LinkPurpose purpose() const { return purpose_; }
  const wire::Hello& hello() const { return hello_; }       // control only; corrected by the allow-list
  const SecretId& secret_id() const { return secret_id_; }  // control and stripe
  const EnrolmentId& enrolment_id() const { return enrolment_id_; }  // enrol only

 private:
  friend class Handshake;
  ProvenPeer() = default;
  NodeKey key_;
  LinkPurpose purpose_ = LinkPurpose::control;
  wire::Hello hello_;
  SecretId secret_id_;
  EnrolmentId enrolment_id_;
};

class Handshake {
 public:
  enum class State { securing, awaiting_answer, awaiting_offer, deciding, proven, refused };
  enum class Event { offer_sent, ready_for_offer, offer_accepted, answer_sent, answer_accepted, refusal };

  // What an initiator wants.
  struct Offer {
    LinkPurpose purpose = LinkPurpose::control;
    std::optional<NodeKey> expected;
    std::size_t attempt = 0;                // chooses the fleet secret (LinkTrust::secret_for_attempt)
    std::optional<EnrolmentTicket> ticket;  // enrol
  };

  // `trust` must outlive the handshake; `hello` is this daemon's own.
  static Handshake initiate(const LinkTrust& trust, const wire::Hello& hello, Offer offer);
  static Handshake respond(const LinkTrust& trust, const wire::Hello& hello);

  // May the peer have this key at all? Asked while TLS is being set up, and again by secured().
  Status judge(const NodeKey& peer) const;
  // TLS stands. An initiator gets its offer to send, a responder nothing.
  Result<std::optional<wire::Handshake>> secured(const NodeKey& peer, const Exporter& exporter);
  // The peer's message. An initiator is proven after it; a responder has to decide (peer() is known then) and
  // then calls answer() or refuse().
  Status received(ByteView message);
  Result<wire::Handshake> answer();
  void refuse() { step(Event::refusal); }

  State state() const { return state_; }
  LinkSide side() const { return side_; }
  // Known once secured.
  const NodeKey& peer_key() const { return peer_.key_; }
  LinkPurpose purpose() const { return peer_.purpose_; }
  // REQUIRES: deciding or proven.
  const ProvenPeer& peer() const { return peer_; }

 private:
  Handshake(const LinkTrust& trust, const wire::Hello& hello, LinkSide side);
  bool step(Event event);
  Error refused(Error why);
  Result<LinkProof> proof_of(LinkSide prover) const;
  Result<wire::Handshake> message() const;
  Status check(const wire::Handshake& message);
  Status check_offer(const wire::Handshake& message);

  const LinkTrust* trust_;
  wire::Hello hello_;
  LinkSide side_;
  State state_ = State::securing;
  std::optional<NodeKey> expected_;
  std::optional<EnrolmentTicket> ticket_;
  std::size_t attempt_ = 0;
  Exporter exporter_;
  ProvenPeer peer_;
};

}  // namespace p2pw
