#include "daemon/link/identity.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

namespace p2pw {
namespace {

Error openssl_error(const std::string& what) {
  char reason[160] = "unknown reason";
  if (unsigned long code = ERR_get_error(); code != 0) ERR_error_string_n(code, reason, sizeof reason);
  ERR_clear_error();
  return fail(ErrorCode::failed, what + ": OpenSSL says " + reason);
}

bool fill_certificate(X509* certificate, EVP_PKEY* key) {
  X509_NAME* name = X509_get_subject_name(certificate);
  return X509_set_version(certificate, X509_VERSION_3) == 1 &&
         ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1) == 1 &&
         ASN1_TIME_set_string(X509_getm_notBefore(certificate), "19700101000000Z") == 1 &&
         ASN1_TIME_set_string(X509_getm_notAfter(certificate), "99991231235959Z") == 1 &&
         X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("p2pw"),
                                    -1, -1, 0) == 1 &&
         X509_set_issuer_name(certificate, name) == 1 && X509_set_pubkey(certificate, key) == 1 &&
         X509_sign(certificate, key, nullptr) > 0;  // Ed25519 brings its own digest
}

}  // namespace

Result<NodeIdentity> NodeIdentity::make(const SigningKey& node_key) {
  NodeIdentity identity;
  auto raw = node_key.raw();
  identity.private_key_.reset(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, raw.data(), 32),
                              EVP_PKEY_free);
  if (!identity.private_key_) return openssl_error("cannot use the node key");
  std::size_t length = identity.key_.data.size();
  if (EVP_PKEY_get_raw_public_key(identity.private_key_.get(), identity.key_.data.data(), &length) != 1) {
    return openssl_error("cannot read the public half of the node key");
  }
  identity.certificate_.reset(X509_new(), X509_free);
  if (!identity.certificate_ || !fill_certificate(identity.certificate_.get(), identity.private_key_.get())) {
    return openssl_error("cannot make the node's certificate");
  }
  return identity;
}

Result<NodeKey> node_key_of(X509* certificate) {
  const auto refuse = [](const char* why) {
    ERR_clear_error();
    return fail(ErrorCode::untrusted, std::string("the peer's certificate is refused: ") + why);
  };
  if (certificate == nullptr) return refuse("there is none");
  EVP_PKEY* key = X509_get0_pubkey(certificate);
  if (key == nullptr || EVP_PKEY_id(key) != EVP_PKEY_ED25519) return refuse("its key is not Ed25519");
  NodeKey node;
  std::size_t length = node.data.size();
  if (EVP_PKEY_get_raw_public_key(key, node.data.data(), &length) != 1 || length != node.data.size()) {
    return refuse("its key is malformed");
  }
  if (node.is_zero()) return refuse("its key is zero");
  if (X509_verify(certificate, key) != 1) return refuse("it is not signed by its own key");
  return node;
}

}  // namespace p2pw
