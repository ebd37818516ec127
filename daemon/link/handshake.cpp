#include "daemon/link/handshake.h"

namespace p2pw {
namespace {

using State = Handshake::State;
using Event = Handshake::Event;

struct Transition {
  LinkSide side;
  State from;
  Event event;
  State to;
};
constexpr Transition kTransitions[] = {
    {LinkSide::initiator, State::securing, Event::offer_sent, State::awaiting_answer},
    {LinkSide::initiator, State::awaiting_answer, Event::answer_accepted, State::proven},
    {LinkSide::responder, State::securing, Event::ready_for_offer, State::awaiting_offer},
    {LinkSide::responder, State::awaiting_offer, Event::offer_accepted, State::deciding},
    {LinkSide::responder, State::deciding, Event::answer_sent, State::proven},
};

std::string name_of(const NodeKey& key) {
  return "node " + key.short_hex();
}

}  // namespace

Handshake::Handshake(const LinkTrust& trust, const wire::Hello& hello, LinkSide side)
    : trust_(&trust), hello_(hello), side_(side) {}

Handshake Handshake::initiate(const LinkTrust& trust, const wire::Hello& hello, Offer offer) {
  Handshake handshake(trust, hello, LinkSide::initiator);
  handshake.peer_.purpose_ = offer.purpose;
  handshake.expected_ = offer.expected;
  handshake.attempt_ = offer.attempt;
  handshake.ticket_ = std::move(offer.ticket);
  return handshake;
}

Handshake Handshake::respond(const LinkTrust& trust, const wire::Hello& hello) {
  return Handshake(trust, hello, LinkSide::responder);
}

bool Handshake::step(Event event) {
  State next = State::refused;  // also where an event is out of place
  for (const auto& transition : kTransitions) {
    if (transition.side == side_ && transition.from == state_ && transition.event == event)
      next = transition.to;
  }
  state_ = next;
  return state_ != State::refused;
}

Error Handshake::refused(Error why) {
  step(Event::refusal);
  return why;
}

Status Handshake::judge(const NodeKey& peer) const {
  if (expected_ && *expected_ != peer) {
    return fail(ErrorCode::untrusted, "expected node " + expected_->short_hex() + ", found " + name_of(peer));
  }
  return trust_->admits(peer);
}

Result<std::optional<wire::Handshake>> Handshake::secured(const NodeKey& peer, const Exporter& exporter) {
  peer_.key_ = peer;
  exporter_ = exporter;
  if (auto judged = judge(peer); !judged) return refused(std::move(judged).error());
  if (side_ == LinkSide::responder) {
    step(Event::ready_for_offer);
    return std::optional<wire::Handshake>{};
  }
  if (peer_.purpose_ == LinkPurpose::enrol) {
    if (ticket_) peer_.enrolment_id_ = ticket_->id;
  } else if (const FleetSecret* secret = trust_->secret_for_attempt(attempt_)) {
    peer_.secret_id_ = secret->id();
  }
  auto offer = message();
  if (!offer) return refused(std::move(offer).error());
  step(Event::offer_sent);
  return std::optional(std::move(offer).value());
}

Result<LinkProof> Handshake::proof_of(LinkSide prover) const {
  const bool ours_is_first = side_ == LinkSide::initiator;
  const ProofContext context{.side = prover,
                             .purpose = peer_.purpose_,
                             .initiator = ours_is_first ? trust_->own_key() : peer_.key_,
                             .responder = ours_is_first ? peer_.key_ : trust_->own_key(),
                             .exporter = exporter_};
  if (peer_.purpose_ == LinkPurpose::enrol) {
    const auto secret =
        ticket_ ? std::optional(ticket_->secret) : trust_->enrolment_secret(peer_.enrolment_id_);
    if (!secret) {
      return fail(ErrorCode::untrusted,
                  "the token is unknown, used up or expired; make another with `p2pw token`");
    }
    return enrolment_proof(secret->view(), context);
  }
  const FleetSecret* secret = trust_->secret(peer_.secret_id_);
  if (secret == nullptr) {
    return fail(ErrorCode::untrusted, name_of(peer_.key_) + " proves itself with fleet secret " +
                                          peer_.secret_id_.hex() + ", which is not accepted here");
  }
  return fleet_proof(*secret, context);
}

Result<wire::Handshake> Handshake::message() const {
  P2PW_TRY(const LinkProof proof, proof_of(side_));
  wire::Handshake message;
  message.set_protocol(kLinkProtocol);
  message.set_purpose(static_cast<wire::Handshake::Purpose>(peer_.purpose_));
  message.set_proof(proof.data(), proof.size());
  if (peer_.purpose_ == LinkPurpose::enrol) {
    message.set_enrolment_id(std::string(peer_.enrolment_id_.text()));
  } else {
    message.set_secret_id(std::string(peer_.secret_id_.text()));
  }
  if (peer_.purpose_ == LinkPurpose::control) *message.mutable_hello() = hello_;
  return message;
}

Status Handshake::received(ByteView bytes) {
  if (state_ != State::awaiting_answer && state_ != State::awaiting_offer) {
    return refused(fail(ErrorCode::malformed, name_of(peer_.key_) + " speaks out of turn"));
  }
  wire::Handshake message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return refused(fail(ErrorCode::malformed, name_of(peer_.key_) + " sent a handshake that cannot be read"));
  }
  if (auto checked = check(message); !checked) return refused(std::move(checked).error());
  step(side_ == LinkSide::initiator ? Event::answer_accepted : Event::offer_accepted);
  return {};
}

Status Handshake::check_offer(const wire::Handshake& message) {
  switch (message.purpose()) {
    case wire::Handshake::CONTROL:
    case wire::Handshake::STRIPE: {
      const auto id = SecretId::from(message.secret_id());
      if (!id) return fail(ErrorCode::malformed, name_of(peer_.key_) + " names no fleet secret");
      peer_.secret_id_ = *id;
      break;
    }
    case wire::Handshake::ENROL: {
      const auto id = EnrolmentId::from(message.enrolment_id());
      if (!id) return fail(ErrorCode::malformed, name_of(peer_.key_) + " names no token");
      peer_.enrolment_id_ = *id;
      break;
    }
    default:
      return fail(ErrorCode::malformed, name_of(peer_.key_) + " wants a connection of an unknown purpose");
  }
  peer_.purpose_ = static_cast<LinkPurpose>(message.purpose());
  return {};
}

Status Handshake::check(const wire::Handshake& message) {
  if (message.protocol() != kLinkProtocol) {
    return fail(ErrorCode::unsupported, name_of(peer_.key_) + " speaks link protocol " +
                                            std::to_string(message.protocol()) + ", this build speaks " +
                                            std::to_string(kLinkProtocol) + "; update the older of the two");
  }
  if (side_ == LinkSide::responder) {
    P2PW_CHECK(check_offer(message));
  } else if (static_cast<int>(message.purpose()) != static_cast<int>(peer_.purpose_)) {
    return fail(ErrorCode::malformed, name_of(peer_.key_) + " answers for another purpose");
  }
  const LinkSide prover = side_ == LinkSide::initiator ? LinkSide::responder : LinkSide::initiator;
  P2PW_TRY(const LinkProof proof, proof_of(prover));
  if (!proof_matches(proof, as_bytes(message.proof()))) {
    return fail(ErrorCode::untrusted, name_of(peer_.key_) + " does not know the secret that it names");
  }
  if (peer_.purpose_ == LinkPurpose::control) {
    peer_.hello_ = message.hello();
    P2PW_CHECK(trust_->correct(peer_.key_, peer_.hello_));
  }
  return {};
}

Result<wire::Handshake> Handshake::answer() {
  if (state_ != State::deciding) return refused(fail(ErrorCode::failed, "an answer without an offer"));
  auto reply = message();
  if (!reply) return refused(std::move(reply).error());
  step(Event::answer_sent);
  return reply;
}

}  // namespace p2pw
