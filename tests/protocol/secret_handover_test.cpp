#include "protocol/secret_handover.h"

#include <gtest/gtest.h>

#include "protocol/links.pb.h"

namespace p2pw {
namespace {

class SecretHandoverTest : public ::testing::Test {
 protected:
  wire::SecretHandover made(bool only = false) {
    const NodeKey members[] = {node_key_of(a_), node_key_of(b_)};
    return make_handover(trainer_, secret_, from_millis(1234), only, members).at(0);
  }
  Result<Handover> read(const wire::SecretHandover& message, const SigningKey& as) {
    const NodeKey trusted[] = {node_key_of(trainer_)};
    return read_handover(message, as, trusted);
  }
  SigningKey trainer_ = SigningKey::generate(), a_ = SigningKey::generate(), b_ = SigningKey::generate(),
             outside_ = SigningKey::generate();
  FleetSecret secret_ = FleetSecret::generate();
};

TEST_F(SecretHandoverTest, EachMemberOpensItsOwnCopyAndNobodyElse) {
  for (const SigningKey* member : {&a_, &b_}) {
    auto got = read(made(true), *member);
    ASSERT_TRUE(got.ok()) << got.error().message;
    ASSERT_TRUE(got->secret);
    EXPECT_EQ(got->secret->file(), secret_.file());
    EXPECT_EQ(got->issued, from_millis(1234));
    EXPECT_TRUE(got->only);
  }
  auto got = read(made(), outside_);
  ASSERT_TRUE(got.ok());
  EXPECT_FALSE(got->secret) << "it may pass it on and learns nothing";
  EXPECT_EQ(made().SerializeAsString().find(secret_.file().substr(40, 30)), std::string::npos);
}

TEST_F(SecretHandoverTest, OnlyTheTrainerOfTheConfigurationIsBelieved) {
  const NodeKey members[] = {node_key_of(a_)};
  auto forged = make_handover(outside_, secret_, from_millis(1), false, members).at(0);
  EXPECT_EQ(read(forged, a_).error().code, ErrorCode::untrusted);
  EXPECT_EQ(read_handover(made(), a_, {}).error().code, ErrorCode::untrusted);
  // The outsider's signature under the trainer's name.
  wire::SecretHandoverBody body;
  ASSERT_TRUE(body.ParseFromString(forged.body()));
  body.set_issuer(std::string(node_key_of(trainer_).text()));
  forged.set_body(body.SerializeAsString());
  EXPECT_EQ(read(forged, a_).error().code, ErrorCode::untrusted);
}

TEST_F(SecretHandoverTest, AnyChangedByteIsFound) {
  const wire::SecretHandover good = made();
  for (std::size_t i = 0; i < good.body().size(); ++i) {
    wire::SecretHandover bad = good;
    (*bad.mutable_body())[i] = static_cast<char>(bad.body()[i] ^ 0x10);
    EXPECT_FALSE(read(bad, a_).ok()) << "byte " << i;
  }
  wire::SecretHandover bad = good;
  bad.mutable_signature()->pop_back();
  EXPECT_EQ(read(bad, a_).error().code, ErrorCode::malformed);
  EXPECT_FALSE(read(wire::SecretHandover(), a_).ok());
}

TEST_F(SecretHandoverTest, ACopyOfAnotherSecretIsRefused) {
  wire::SecretHandoverBody body, other;
  const NodeKey members[] = {node_key_of(a_)};
  ASSERT_TRUE(other.ParseFromString(make_handover(trainer_, FleetSecret::generate(), from_millis(1), false, members).at(0).body()));
  auto message = made();
  ASSERT_TRUE(body.ParseFromString(message.body()));
  EXPECT_NE(body.sealed(0).box(), other.sealed(0).box());
  EXPECT_NE(made().body(), made().body()) << "boxes are randomised";
}

TEST_F(SecretHandoverTest, LargeFleetsTakeSeveralMessagesThatFit) {
  std::vector<NodeKey> members;
  for (int i = 0; i < 450; ++i) members.push_back(node_key_of(SigningKey::generate()));
  members[7].data.fill(0xff);  // no point of the curve
  auto parts = make_handover(trainer_, secret_, from_millis(1), false, members);
  ASSERT_EQ(parts.size(), 3u);
  std::size_t copies = 0;
  for (const auto& part : parts) {
    EXPECT_LT(part.ByteSizeLong(), 64u << 10);
    wire::SecretHandoverBody body;
    ASSERT_TRUE(body.ParseFromString(part.body()));
    copies += static_cast<std::size_t>(body.sealed_size());
  }
  EXPECT_EQ(copies, 449u);
}

}  // namespace
}  // namespace p2pw
