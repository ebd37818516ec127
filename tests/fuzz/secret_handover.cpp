// Handovers of a new fleet secret: as they come, and with the body that a trusted trainer would have signed.
#include "protocol/secret_handover.h"

#include <sodium.h>

#include <cstdlib>

#include "protocol/crypto_init.h"
#include "protocol/links.pb.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace p2pw;
  init_crypto();
  static const SigningKey trainer = SigningKey::generate(), own = SigningKey::generate();
  const NodeKey issuer = node_key_of(trainer);
  wire::SecretHandover message;
  if (message.ParseFromArray(data, static_cast<int>(size)) && read_handover(message, own, {&issuer, 1}).ok()) std::abort();
  wire::SecretHandoverBody body;
  if (!body.ParseFromArray(data, static_cast<int>(size))) return 0;
  body.set_issuer(std::string(issuer.text()));
  message.set_body(body.SerializeAsString());
  const std::string covered = "p2pw secret handover 1" + message.body();
  std::array<std::uint8_t, crypto_sign_BYTES> signature;
  crypto_sign_detached(signature.data(), nullptr, reinterpret_cast<const unsigned char*>(covered.data()), covered.size(),
                       trainer.raw().data());
  message.set_signature(signature.data(), signature.size());
  auto handover = read_handover(message, own, {&issuer, 1});
  if (handover.ok() && handover->secret) std::abort();  // nobody has sealed one for this node
  return 0;
}
