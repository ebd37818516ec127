// How each end of a fresh TLS connection proves to the other that it belongs to the fleet: an HMAC-SHA256 over what only
// the two ends of this very connection share. The keys in the certificates say who the ends are; the proof says that
// they may be here.
//
// The proof covers the prover's side, so a proof that is sent back (reflection) fails; the TLS exporter value, so one
// that was heard elsewhere or earlier (replay) fails; both node keys, so one that a man in the middle passes on between
// two connections (misbinding) fails; and the purpose, so an enrolment never opens a control connection. Nothing
// secret is learned from it. Pure functions: any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "protocol/ids.h"
#include "protocol/sealing.h"

namespace p2pw {

inline constexpr std::uint32_t kLinkProtocol = 1;
// The label for SSL_export_keying_material, without context, 32 bytes.
inline constexpr std::string_view kLinkExporterLabel = "EXPORTER-p2pw-link-1";

enum class LinkSide : std::uint8_t { initiator = 1, responder = 2 };             // who dialled, who accepted
enum class LinkPurpose : std::uint8_t { control = 0, stripe = 1, enrol = 2 };    // as wire::Handshake::Purpose

using LinkProof = std::array<std::uint8_t, 32>;

struct ProofContext {
  LinkSide side = LinkSide::initiator;  // whose proof this is
  LinkPurpose purpose = LinkPurpose::control;
  NodeKey initiator;  // as the certificates of this connection say
  NodeKey responder;
  std::array<std::uint8_t, 32> exporter{};

  // What the other side has to prove.
  ProofContext other() const {
    ProofContext theirs = *this;
    theirs.side = side == LinkSide::initiator ? LinkSide::responder : LinkSide::initiator;
    return theirs;
  }
};

// For control and stripe connections. The key is derived from the fleet secret under a label of its own.
LinkProof fleet_proof(const FleetSecret& secret, const ProofContext& context);

// For the one request of a token's bearer; another label, so it can never pass for a fleet proof.
LinkProof enrolment_proof(ByteView enrolment_secret, const ProofContext& context);

// In constant time. False for any length but 32.
bool proof_matches(const LinkProof& expected, ByteView received);

}  // namespace p2pw
