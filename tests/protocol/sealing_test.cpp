#include "protocol/sealing.h"

#include <gtest/gtest.h>
#include <sodium.h>

#include <set>

#include "tests/protocol/make_records.h"

namespace p2pw {
namespace {

using namespace p2pw::testing;

RunContext run_context() {
  return {channel(), Version(9), Version(8), Kind::delta, blob<Salt>(4)};
}

TEST(FleetSecret, FileRoundTripAndDamage) {
  const FleetSecret secret = FleetSecret::generate();
  const std::string file = secret.file();
  const auto again = FleetSecret::parse(file);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->id(), secret.id());
  EXPECT_TRUE(std::ranges::equal(again->raw(), secret.raw()));
  EXPECT_EQ(secret.clone().file(), file);
  for (std::size_t i = 0; i + 1 < file.size(); ++i) {
    std::string damaged = file;
    damaged[i] = damaged[i] == '0' ? '1' : '0';
    EXPECT_FALSE(FleetSecret::parse(damaged).ok()) << i;
    EXPECT_FALSE(FleetSecret::parse(file.substr(0, i)).ok()) << i;
  }
  EXPECT_NE(FleetSecret::generate().id(), secret.id());
}

TEST(FrameKey, EveryPartOfTheRunChangesTheKey) {
  const FleetSecret secret = FleetSecret::generate(), other = FleetSecret::generate();
  std::set<std::string> keys;
  const auto add = [&](const FleetSecret& s, const RunContext& run) {
    keys.insert(to_hex(FrameKey::derive(s, run).raw()));
  };
  add(secret, run_context());
  add(secret, run_context());
  EXPECT_EQ(keys.size(), 1u);
  add(other, run_context());
  RunContext run = run_context();
  run.channel = channel("policy2");
  add(secret, run);
  run = run_context();
  run.version = Version(10);
  add(secret, run);
  run = run_context();
  run.kind = Kind::anchor;
  add(secret, run);
  run = run_context();
  run.salt.data[31] ^= 1;
  add(secret, run);
  EXPECT_EQ(keys.size(), 6u);
}

TEST(FrameKey, TravelsAsRawBytes) {
  const FrameKey key = FrameKey::derive(FleetSecret::generate(), run_context());
  const auto again = FrameKey::from(key.raw());
  ASSERT_TRUE(again);
  EXPECT_TRUE(std::ranges::equal(again->raw(), key.raw()));
  EXPECT_FALSE(FrameKey::from(key.raw().first(31)));
}

class SealerTest : public ::testing::Test {
 protected:
  FleetSecret secret_ = FleetSecret::generate();
  FrameSealer sealer_{FrameKey::derive(secret_, run_context()), run_context()};
  Bytes plain_ = Bytes(1000, std::byte{42});
  Bytes sealed_;
  Bytes opened_;

  void SetUp() override { sealer_.seal(BundleIndex(2), FrameIndex(3), SlabId::tensor(4), plain_, sealed_); }
};

TEST_F(SealerTest, OpensInItsPlaceAndAppends) {
  EXPECT_EQ(sealed_.size(), plain_.size() + kSealOverhead);
  ASSERT_TRUE(sealer_.open(BundleIndex(2), FrameIndex(3), SlabId::tensor(4), sealed_, opened_).ok());
  EXPECT_EQ(opened_, plain_);
  const std::size_t first = sealed_.size();
  sealer_.seal(BundleIndex(2), FrameIndex(4), SlabId::tensor(5), {}, sealed_);
  ASSERT_EQ(sealed_.size(), first + kSealOverhead);
  EXPECT_TRUE(
      sealer_
          .open(BundleIndex(2), FrameIndex(4), SlabId::tensor(5), ByteView(sealed_).subspan(first), opened_)
          .ok());
  EXPECT_TRUE(opened_.empty());
}

// As SPEC.md section 6 writes it down, opened by another implementation.
TEST_F(SealerTest, IsXChaCha20Poly1305) {
  std::string data;
  const auto text = [&](std::string_view t) { data.append(1, static_cast<char>(t.size())).append(t); };
  const auto number = [&](std::uint64_t value, int width) {
    for (int i = 0; i < width; ++i) data += static_cast<char>(value >> (8 * i));
  };
  text("p2pw frame 1");
  text(run_context().channel.str());
  number(9, 8);
  number(8, 8);
  number(2, 1);
  number(4, 4);
  const std::array<std::uint8_t, 24> nonce{2, 0, 0, 0, 3};
  Bytes plain(plain_.size());
  const auto raw = [](auto& bytes) { return reinterpret_cast<const unsigned char*>(bytes.data()); };
  const FrameKey key = FrameKey::derive(secret_, run_context());
  const ByteView key_bytes = key.raw();
  ASSERT_EQ(crypto_aead_xchacha20poly1305_ietf_decrypt(reinterpret_cast<unsigned char*>(plain.data()), nullptr, nullptr,
                                                       raw(sealed_), sealed_.size(), raw(data), data.size(), nonce.data(),
                                                       raw(key_bytes)),
            0);
  EXPECT_EQ(plain, plain_);
}

TEST_F(SealerTest, NowhereElse) {
  const auto refused = [&](std::uint32_t bundle, std::uint32_t frame, SlabId slab) {
    return sealer_.open(BundleIndex(bundle), FrameIndex(frame), slab, sealed_, opened_).error().code ==
           ErrorCode::integrity;
  };
  EXPECT_TRUE(refused(1, 3, SlabId::tensor(4)));
  EXPECT_TRUE(refused(3, 2, SlabId::tensor(4))) << "bundle and frame exchanged";
  EXPECT_TRUE(refused(2, 4, SlabId::tensor(4)));
  EXPECT_TRUE(refused(2, 3, SlabId::tensor(5)));
  EXPECT_TRUE(refused(2, 3, SlabId::bytes(4)));
  EXPECT_TRUE(opened_.empty()) << "nothing of a refused frame is left";
}

// The same key with another context: what the associated data alone protects.
TEST_F(SealerTest, InNoOtherContext) {
  const FrameKey key = FrameKey::derive(secret_, run_context());
  const auto refused = [&](const RunContext& run) {
    return !FrameSealer(key, run)
                .open(BundleIndex(2), FrameIndex(3), SlabId::tensor(4), sealed_, opened_)
                .ok();
  };
  EXPECT_FALSE(refused(run_context()));
  RunContext run = run_context();
  run.parent = Version(7);
  EXPECT_TRUE(refused(run));
  run = run_context();
  run.version = Version(10);
  EXPECT_TRUE(refused(run));
  run = run_context();
  run.kind = Kind::anchor;
  EXPECT_TRUE(refused(run));
  run = run_context();
  run.channel = channel("policy2");
  EXPECT_TRUE(refused(run));
}

TEST_F(SealerTest, WithNoOtherKeyAndNoFlippedBit) {
  const FrameSealer other(FrameKey::derive(FleetSecret::generate(), run_context()), run_context());
  EXPECT_FALSE(other.open(BundleIndex(2), FrameIndex(3), SlabId::tensor(4), sealed_, opened_).ok());
  for (std::size_t i = 0; i < sealed_.size(); ++i) {
    sealed_[i] ^= std::byte{0x80};
    EXPECT_FALSE(sealer_.open(BundleIndex(2), FrameIndex(3), SlabId::tensor(4), sealed_, opened_).ok()) << i;
    sealed_[i] ^= std::byte{0x80};
  }
  for (std::size_t size : {std::size_t(0), std::size_t(15), std::size_t(16), sealed_.size() - 1}) {
    EXPECT_FALSE(
        sealer_.open(BundleIndex(2), FrameIndex(3), SlabId::tensor(4), ByteView(sealed_).first(size), opened_)
            .ok());
  }
}

// SPEC.md's formulas, written out with libsodium alone.
TEST_F(SealerTest, FollowsTheSpecification) {
  const auto number = [](std::uint64_t value, int width) {
    std::string out;
    for (int i = 0; i < width; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
    return out;
  };
  const auto raw = [](const std::string& text) {
    return reinterpret_cast<const unsigned char*>(text.data());
  };
  const std::string key_input =
      "\x10p2pw frame key 1\x06policy" + number(9, 8) + number(2, 1) + std::string(run_context().salt.text());
  const std::string data =
      "\x0cp2pw frame 1\x06policy" + number(9, 8) + number(8, 8) + number(2, 1) + number(4, 4);
  const std::string nonce = number(2, 4) + number(3, 4) + std::string(16, '\0');
  unsigned char key[32];
  crypto_generichash(key, sizeof key, raw(key_input), key_input.size(), secret_.raw().data(), 32);
  Bytes plain(plain_.size());
  ASSERT_EQ(crypto_aead_xchacha20poly1305_ietf_decrypt(
                reinterpret_cast<unsigned char*>(plain.data()), nullptr, nullptr,
                reinterpret_cast<const unsigned char*>(sealed_.data()), sealed_.size(), raw(data),
                data.size(), raw(nonce), key),
            0);
  EXPECT_EQ(plain, plain_);
}

}  // namespace
}  // namespace p2pw
