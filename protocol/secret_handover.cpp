#include "protocol/secret_handover.h"

#include <sodium.h>

#include <algorithm>

#include "protocol/crypto_init.h"
#include "protocol/limits.h"
#include "protocol/links.pb.h"

namespace p2pw {
namespace {

constexpr std::string_view kLabel = "p2pw secret handover 1";

std::string signed_bytes(const std::string& body) { return std::string(kLabel) + body; }

std::optional<std::string> sealed_for(const NodeKey& node, const std::string& plain) {
  std::array<std::uint8_t, crypto_box_PUBLICKEYBYTES> curve;
  if (crypto_sign_ed25519_pk_to_curve25519(curve.data(), node.data.data()) != 0) return std::nullopt;
  std::string box(plain.size() + crypto_box_SEALBYTES, '\0');
  crypto_box_seal(reinterpret_cast<unsigned char*>(box.data()), reinterpret_cast<const unsigned char*>(plain.data()),
                  plain.size(), curve.data());
  return box;
}

Result<FleetSecret> opened(const std::string& box, const SigningKey& own) {
  const Error bad = fail(ErrorCode::integrity, "the copy of the new fleet secret for this node does not open");
  std::array<std::uint8_t, crypto_box_PUBLICKEYBYTES> open_key;
  std::array<std::uint8_t, crypto_box_SECRETKEYBYTES> secret_key;
  if (box.size() < crypto_box_SEALBYTES || box.size() > 1024 ||
      crypto_sign_ed25519_pk_to_curve25519(open_key.data(), own.verifying_key().key.data.data()) != 0) {
    return bad;
  }
  crypto_sign_ed25519_sk_to_curve25519(secret_key.data(), own.raw().data());
  std::string plain(box.size() - crypto_box_SEALBYTES, '\0');
  const bool good = crypto_box_seal_open(reinterpret_cast<unsigned char*>(plain.data()),
                                         reinterpret_cast<const unsigned char*>(box.data()), box.size(), open_key.data(),
                                         secret_key.data()) == 0;
  sodium_memzero(secret_key.data(), secret_key.size());
  if (!good) return bad;
  auto secret = FleetSecret::parse(plain);
  sodium_memzero(plain.data(), plain.size());
  return secret;
}

}  // namespace

std::vector<wire::SecretHandover> make_handover(const SigningKey& issuer, const FleetSecret& secret, WallTime issued,
                                                bool only, std::span<const NodeKey> members) {
  init_crypto();
  std::vector<wire::SecretHandover> out;
  std::size_t done = 0;
  do {
    wire::SecretHandoverBody body;
    body.set_issuer(std::string(node_key_of(issuer).text()));
    body.set_issued_ms(to_millis(issued));
    body.set_secret_id(std::string(secret.id().text()));
    body.set_only(only);
    for (; done < members.size() && static_cast<std::size_t>(body.sealed_size()) < kMaxHandoverCopies; ++done) {
      auto box = sealed_for(members[done], secret.file());
      if (!box) continue;
      auto* sealed = body.add_sealed();
      sealed->set_node(std::string(members[done].text()));
      sealed->set_box(std::move(*box));
    }
    wire::SecretHandover& message = out.emplace_back();
    message.set_body(body.SerializeAsString());
    const std::string covered = signed_bytes(message.body());
    std::array<std::uint8_t, crypto_sign_BYTES> signature;
    crypto_sign_detached(signature.data(), nullptr, reinterpret_cast<const unsigned char*>(covered.data()), covered.size(),
                         issuer.raw().data());
    message.set_signature(signature.data(), signature.size());
  } while (done < members.size());
  return out;
}

Result<Handover> read_handover(const wire::SecretHandover& message, const SigningKey& own,
                               std::span<const NodeKey> trusted) {
  init_crypto();
  if (message.body().size() > limits::kMaxMessageBytes) return fail(ErrorCode::limit, "a secret handover is too large");
  wire::SecretHandoverBody body;
  if (message.signature().size() != crypto_sign_BYTES || !body.ParseFromString(message.body())) {
    return fail(ErrorCode::malformed, "not a secret handover");
  }
  const auto issuer = NodeKey::from(body.issuer());
  const auto id = SecretId::from(body.secret_id());
  if (!issuer || !id || static_cast<std::size_t>(body.sealed_size()) > kMaxHandoverCopies) {
    return fail(ErrorCode::malformed, "not a secret handover");
  }
  if (std::find(trusted.begin(), trusted.end(), *issuer) == trusted.end()) {
    return fail(ErrorCode::untrusted, "a new fleet secret from node " + issuer->short_hex() +
                                          ", which is not the trainer of this node's configuration");
  }
  const std::string covered = signed_bytes(message.body());
  if (crypto_sign_verify_detached(reinterpret_cast<const unsigned char*>(message.signature().data()),
                                  reinterpret_cast<const unsigned char*>(covered.data()), covered.size(),
                                  issuer->data.data()) != 0) {
    return fail(ErrorCode::untrusted, "a secret handover whose signature is wrong");
  }
  Handover handover{*issuer, from_millis(body.issued_ms()), *id, body.only(), std::nullopt};
  for (const auto& sealed : body.sealed()) {
    if (sealed.node() != node_key_of(own).text()) continue;
    P2PW_TRY(FleetSecret secret, opened(sealed.box(), own));
    if (secret.id() != *id) return fail(ErrorCode::integrity, "a secret handover holds another secret than it names");
    handover.secret = std::move(secret);
  }
  return handover;
}

}  // namespace p2pw
