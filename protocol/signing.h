// Ed25519 keys and signatures in minisign's format: a key file that `p2pw keygen` writes is one that minisign reads, and
// the other way round (unencrypted ones; a service has nobody to type a password). Signatures are the prehashed kind
// ("ED": Ed25519 over BLAKE2b-512).
#pragma once

#include <array>
#include <string>

#include "protocol/ids.h"

namespace p2pw {

// 2 bytes "ED", 8 bytes key id, 64 bytes Ed25519.
using Signature = Blob<struct SignatureTag, 74>;
KeyId signer_of(const Signature& signature);  // as it says itself

struct VerifyingKey {
  KeyId id;
  PublicKey key;

  // The base64 line of a minisign .pub file ("RW..."), or the whole file.
  static Result<VerifyingKey> parse(std::string_view text);
  std::string line() const;  // the base64 line alone
  std::string file() const;  // with the untrusted comment
  bool verify(ByteView message, const Signature& signature) const;
  auto operator<=>(const VerifyingKey&) const = default;
};

// Holds secret bytes; wiped on destruction, never printed.
class SigningKey {
 public:
  static SigningKey generate();
  static Result<SigningKey> parse(std::string_view file);  // minisign secret key file without encryption
  std::string file() const;                                // what parse() reads
  ~SigningKey();
  SigningKey(SigningKey&&) noexcept;
  SigningKey& operator=(SigningKey&&) noexcept;
  SigningKey(const SigningKey&) = delete;

  const VerifyingKey& verifying_key() const { return verifying_; }
  Signature sign(ByteView message) const;
  // A whole .minisig file for `message`, with a signed trusted comment.
  std::string minisig(ByteView message, std::string_view trusted_comment) const;
  // The raw 64-byte Ed25519 secret (seed, public), for the TLS certificate of a node key.
  std::span<const std::uint8_t, 64> raw() const { return secret_; }

 private:
  SigningKey() = default;
  VerifyingKey verifying_;
  std::array<std::uint8_t, 64> secret_{};
};

// A node is named by its public key.
NodeKey node_key_of(const SigningKey& key);

}  // namespace p2pw
