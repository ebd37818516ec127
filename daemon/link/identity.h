// A daemon's identity on links: its node key (Ed25519) and the self-signed certificate that carries it
// through TLS. The certificate says nothing but the key: no name, no host, no expiry. Who a key belongs to is
// decided elsewhere.
//
// Values that own OpenSSL objects; any one thread at a time. Errors: failed (OpenSSL refuses), untrusted (a
// peer's certificate is not a well-formed self-signed Ed25519 one).
#pragma once

#include <memory>
#include <span>

#include "protocol/ids.h"
#include "protocol/signing.h"

using EVP_PKEY = struct evp_pkey_st;
using X509 = struct x509_st;

namespace p2pw {

class NodeIdentity {
 public:
  static Result<NodeIdentity> make(const SigningKey& node_key);

  const NodeKey& key() const { return key_; }
  EVP_PKEY* private_key() const { return private_key_.get(); }
  X509* certificate() const { return certificate_.get(); }

 private:
  NodeIdentity() = default;
  NodeKey key_;
  std::shared_ptr<EVP_PKEY> private_key_;
  std::shared_ptr<X509> certificate_;
};

// The Ed25519 key of a certificate that is signed by that very key. TLS itself proves that the peer holds the
// private half; a certificate that is not like the ones made here is refused before anything else is looked
// at.
Result<NodeKey> node_key_of(X509* certificate);

}  // namespace p2pw
