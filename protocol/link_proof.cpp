#include "protocol/link_proof.h"

#include <sodium.h>

#include "protocol/crypto_init.h"

namespace p2pw {
namespace {

constexpr std::string_view kFleetLabel = "p2pw link proof key 1";
constexpr std::string_view kEnrolmentLabel = "p2pw enrolment proof key 1";
constexpr std::string_view kMessageLabel = "p2pw link proof 1";

class Hmac {
 public:
  explicit Hmac(ByteView key) {
    init_crypto();
    crypto_auth_hmacsha256_init(&state_, reinterpret_cast<const unsigned char*>(key.data()), key.size());
  }
  ~Hmac() { sodium_memzero(&state_, sizeof state_); }
  Hmac(const Hmac&) = delete;
  Hmac& operator=(const Hmac&) = delete;
  void add(ByteView bytes) {
    crypto_auth_hmacsha256_update(&state_, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  }
  LinkProof finish() {
    LinkProof out;
    crypto_auth_hmacsha256_final(&state_, out.data());
    return out;
  }

 private:
  crypto_auth_hmacsha256_state state_;
};

LinkProof prove(std::string_view label, ByteView secret, const ProofContext& context) {
  Hmac derive(as_bytes(label));  // HKDF-Extract, the label as its salt
  derive.add(secret);
  LinkProof key = derive.finish();
  Hmac proof(std::as_bytes(std::span(key)));
  sodium_memzero(key.data(), key.size());
  // All parts have a fixed length.
  const std::array<std::uint8_t, 2> role = {static_cast<std::uint8_t>(context.side),
                                            static_cast<std::uint8_t>(context.purpose)};
  proof.add(as_bytes(kMessageLabel));
  proof.add(std::as_bytes(std::span(role)));
  proof.add(context.initiator.view());
  proof.add(context.responder.view());
  proof.add(std::as_bytes(std::span(context.exporter)));
  return proof.finish();
}

}  // namespace

LinkProof fleet_proof(const FleetSecret& secret, const ProofContext& context) {
  return prove(kFleetLabel, std::as_bytes(secret.raw()), context);
}

LinkProof enrolment_proof(ByteView enrolment_secret, const ProofContext& context) {
  return prove(kEnrolmentLabel, enrolment_secret, context);
}

bool proof_matches(const LinkProof& expected, ByteView received) {
  init_crypto();
  return received.size() == expected.size() && sodium_memcmp(expected.data(), received.data(), expected.size()) == 0;
}

}  // namespace p2pw
