#include "protocol/link_proof.h"

#include <gtest/gtest.h>
#include <openssl/hmac.h>

#include <set>

#include "tests/protocol/make_records.h"

namespace p2pw {
namespace {

using namespace p2pw::testing;

ProofContext context() {
  ProofContext out;
  out.initiator = blob<NodeKey>(1);
  out.responder = blob<NodeKey>(2);
  out.exporter.fill(3);
  return out;
}

ByteView view(const LinkProof& proof) {
  return std::as_bytes(std::span(proof));
}

TEST(LinkProof, BothEndsAgree) {
  const FleetSecret secret = FleetSecret::generate();
  const ProofContext mine = context();
  EXPECT_TRUE(proof_matches(fleet_proof(secret, mine), view(fleet_proof(secret.clone(), context()))));
  EXPECT_EQ(mine.other().side, LinkSide::responder);
  EXPECT_EQ(mine.other().other().side, LinkSide::initiator);
}

TEST(LinkProof, EverythingInTheContextMatters) {
  const FleetSecret secret = FleetSecret::generate();
  std::set<LinkProof> proofs{fleet_proof(secret, context())};
  proofs.insert(fleet_proof(secret, context().other()));
  ProofContext c = context();
  c.purpose = LinkPurpose::stripe;
  proofs.insert(fleet_proof(secret, c));
  c.purpose = LinkPurpose::enrol;
  proofs.insert(fleet_proof(secret, c));
  c = context();
  std::swap(c.initiator, c.responder);
  proofs.insert(fleet_proof(secret, c));
  c = context();
  c.initiator.data[31] ^= 1;
  proofs.insert(fleet_proof(secret, c));
  c = context();
  c.responder.data[0] ^= 1;
  proofs.insert(fleet_proof(secret, c));
  c = context();
  c.exporter[31] ^= 1;
  proofs.insert(fleet_proof(secret, c));
  proofs.insert(fleet_proof(FleetSecret::generate(), context()));
  proofs.insert(enrolment_proof(std::as_bytes(secret.raw()), context()));
  EXPECT_EQ(proofs.size(), 10u);
}

TEST(LinkProof, ReflectedProofFails) {
  const FleetSecret secret = FleetSecret::generate();
  const LinkProof sent = fleet_proof(secret, context());
  EXPECT_FALSE(proof_matches(fleet_proof(secret, context().other()), view(sent)));
}

TEST(LinkProof, OnlyWholeProofsMatch) {
  const LinkProof proof = enrolment_proof(as_bytes("secret"), context());
  EXPECT_TRUE(proof_matches(proof, view(proof)));
  for (std::size_t size = 0; size < 32; ++size) EXPECT_FALSE(proof_matches(proof, view(proof).first(size)));
  for (std::size_t i = 0; i < 32; ++i) {
    LinkProof damaged = proof;
    damaged[i] ^= 1;
    EXPECT_FALSE(proof_matches(proof, view(damaged)));
  }
  Bytes longer(view(proof).begin(), view(proof).end());
  longer.push_back(std::byte{0});
  EXPECT_FALSE(proof_matches(proof, longer));
}

// SPEC.md's formula with another library.
TEST(LinkProof, FollowsTheSpecification) {
  const auto hmac = [](std::string_view key, std::string_view message) {
    std::string out(32, '\0');
    unsigned size = 0;
    HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
         reinterpret_cast<const unsigned char*>(message.data()), message.size(),
         reinterpret_cast<unsigned char*>(out.data()), &size);
    return out;
  };
  const ProofContext c = context();
  std::string message = "p2pw link proof 1";
  message += '\x01';
  message += '\x00';
  message += c.initiator.text();
  message += c.responder.text();
  message.append(c.exporter.begin(), c.exporter.end());
  const std::string expected = hmac(hmac("p2pw enrolment proof key 1", "secret"), message);
  EXPECT_TRUE(proof_matches(enrolment_proof(as_bytes("secret"), c), as_bytes(expected)));
}

}  // namespace
}  // namespace p2pw
