#include "daemon/link/tls.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <algorithm>

namespace p2pw {
namespace {

class TlsTest : public ::testing::Test {
 protected:
  static NodeIdentity identity() { return NodeIdentity::make(SigningKey::generate()).value(); }

  // Carries ciphertext between the two until both have nothing to say. False when either breaks.
  static bool shake(TlsSession& a, TlsSession& b) {
    for (int i = 0; i < 10; ++i) {
      for (auto [from, to] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
        if (!from->advance().ok()) return false;
        const Bytes moved(from->output().begin(), from->output().end());
        from->consume_output(moved.size());
        to->feed(moved);
        if (!to->advance().ok()) return false;
      }
    }
    return a.established() && b.established();
  }
  static Bytes carry(TlsSession& from, TlsSession& to) {
    const Bytes moved(from.output().begin(), from.output().end());
    from.consume_output(moved.size());
    to.feed(moved);
    Bytes got, piece(5000);
    while (true) {
      auto count = to.read(piece);
      EXPECT_TRUE(count.ok());
      if (!count.ok() || *count == 0) return got;
      got.insert(got.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(*count));
    }
  }

  NodeIdentity alice_ = identity(), bob_ = identity();
  TlsContext at_alice_ = TlsContext::make(alice_).value(), at_bob_ = TlsContext::make(bob_).value();
};

TEST_F(TlsTest, IdentityIsTheNodeKey) {
  const SigningKey key = SigningKey::generate();
  const NodeIdentity made = NodeIdentity::make(key).value();
  EXPECT_EQ(made.key().data, key.verifying_key().key.data);
  auto read = node_key_of(made.certificate());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, made.key());
}

TEST_F(TlsTest, BothEndsSeeEachOthersKeyAndShareTheExporter) {
  TlsSession a(at_alice_, LinkSide::initiator, nullptr), b(at_bob_, LinkSide::responder, nullptr);
  ASSERT_TRUE(shake(a, b));
  EXPECT_EQ(a.peer_key().value(), bob_.key());
  EXPECT_EQ(b.peer_key().value(), alice_.key());
  EXPECT_EQ(a.exporter().value(), b.exporter().value());
  TlsSession c(at_alice_, LinkSide::initiator, nullptr), d(at_bob_, LinkSide::responder, nullptr);
  ASSERT_TRUE(shake(c, d));
  EXPECT_NE(a.exporter().value(), c.exporter().value());
}

TEST_F(TlsTest, CarriesManyBytesBothWaysAndEndsCleanly) {
  TlsSession a(at_alice_, LinkSide::initiator, nullptr), b(at_bob_, LinkSide::responder, nullptr);
  ASSERT_TRUE(shake(a, b));
  Bytes sent(1'000'000);
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 7 >> 2);
  ASSERT_TRUE(a.write(sent).ok());
  EXPECT_EQ(carry(a, b), sent);
  ASSERT_TRUE(b.write(sent).ok());
  EXPECT_EQ(carry(b, a), sent);
  a.close();
  carry(a, b);
  EXPECT_TRUE(b.finished());
}

TEST_F(TlsTest, AFlippedBitBreaksTheStream) {
  TlsSession a(at_alice_, LinkSide::initiator, nullptr), b(at_bob_, LinkSide::responder, nullptr);
  ASSERT_TRUE(shake(a, b));
  ASSERT_TRUE(a.write(Bytes(100)).ok());
  Bytes moved(a.output().begin(), a.output().end());
  moved[50] ^= std::byte{1};
  b.feed(moved);
  Bytes out(100);
  EXPECT_FALSE(b.read(out).ok());
}

TEST_F(TlsTest, ARefusedKeyNeverSeesTheInitiatorsCertificate) {
  const auto refuse = [](const NodeKey&) -> Status { return fail(ErrorCode::untrusted, "not this one"); };
  TlsSession a(at_alice_, LinkSide::initiator, refuse), b(at_bob_, LinkSide::responder, nullptr);
  EXPECT_FALSE(shake(a, b));
  EXPECT_FALSE(a.established());
  EXPECT_FALSE(b.established());
  EXPECT_FALSE(b.peer_key().ok());
}

TEST_F(TlsTest, TheJudgesReasonIsTheError) {
  const auto refuse = [](const NodeKey&) -> Status { return fail(ErrorCode::untrusted, "not this one"); };
  TlsSession a(at_alice_, LinkSide::initiator, nullptr), b(at_bob_, LinkSide::responder, refuse);
  ASSERT_TRUE(a.advance().ok());
  for (int i = 0; i < 3; ++i) {
    const Bytes to_b(a.output().begin(), a.output().end());
    a.consume_output(to_b.size());
    b.feed(to_b);
    if (auto step = b.advance(); !step) {
      EXPECT_EQ(step.error().message, "not this one");
      EXPECT_EQ(step.error().code, ErrorCode::untrusted);
      return;
    }
    const Bytes to_a(b.output().begin(), b.output().end());
    b.consume_output(to_a.size());
    a.feed(to_a);
    ASSERT_TRUE(a.advance().ok());
  }
  FAIL() << "the certificate was accepted";
}

// A certificate like ours but of another kind, or signed by another key.
std::shared_ptr<X509> certificate_with(EVP_PKEY* key, EVP_PKEY* signer, const EVP_MD* digest) {
  std::shared_ptr<X509> made(X509_new(), X509_free);
  X509_set_version(made.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(made.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(made.get()), 0);
  X509_gmtime_adj(X509_getm_notAfter(made.get()), 3600);
  X509_set_pubkey(made.get(), key);
  X509_sign(made.get(), signer, digest);
  return made;
}

TEST_F(TlsTest, OtherCertificatesAreRefused) {
  EXPECT_FALSE(node_key_of(nullptr).ok());
  const auto forged = certificate_with(alice_.private_key(), bob_.private_key(), nullptr);
  EXPECT_EQ(node_key_of(forged.get()).error().code, ErrorCode::untrusted);
  std::shared_ptr<EVP_PKEY> ec(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const auto other_kind = certificate_with(ec.get(), ec.get(), EVP_sha256());
  EXPECT_EQ(node_key_of(other_kind.get()).error().code, ErrorCode::untrusted);
}

TEST_F(TlsTest, GarbageIsRefused) {
  TlsSession b(at_bob_, LinkSide::responder, nullptr);
  const Bytes garbage(1000, std::byte{0x47});
  b.feed(garbage);
  EXPECT_FALSE(b.advance().ok());
}

}  // namespace
}  // namespace p2pw
