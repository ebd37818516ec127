// How a fleet secret is replaced while the fleet runs: the trainer's daemon makes a new one, seals a copy to the node key of
// each member that is to have it, signs the whole with its own node key, and any member passes it on. Who has no copy in
// it learns nothing; who changes it is found out.
//
// Sealed: libsodium's crypto_box_seal (X25519, XSalsa20-Poly1305) to the X25519 form of the Ed25519 node key. Signed:
// Ed25519 over "p2pw secret handover 1" and the body. Pure functions: any thread.
#pragma once

#include <span>
#include <vector>

#include "protocol/sealing.h"
#include "protocol/signing.h"

namespace p2pw::wire {
class SecretHandover;
}

namespace p2pw {

inline constexpr std::size_t kMaxHandoverCopies = 200;  // in one message, which stays below 64 KiB

// What a handover says, once it is known to be its issuer's.
struct Handover {
  NodeKey issuer;
  WallTime issued;
  SecretId secret_id;
  bool only = false;
  std::optional<FleetSecret> secret;  // of the reader; nothing when no copy is for it
};

// One message for each kMaxHandoverCopies members; one without copies for none. Members whose key is no valid Ed25519 point
// are left out.
std::vector<wire::SecretHandover> make_handover(const SigningKey& issuer, const FleetSecret& secret, WallTime issued,
                                                bool only, std::span<const NodeKey> members);

// `trusted`: node keys of trainers that this daemon was told of (configuration, never a peer's word).
// Errors: malformed, limit, untrusted (another issuer, a wrong signature), integrity (a copy for us that does not open).
Result<Handover> read_handover(const wire::SecretHandover& message, const SigningKey& own,
                               std::span<const NodeKey> trusted);

}  // namespace p2pw
