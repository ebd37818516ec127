// Whatever the bits, what is decoded is what was encoded: every dtype, density, length and instruction set.
#include <gtest/gtest.h>

#include <random>

#include "tests/chunker/codec_data.h"

namespace p2pw::codec {
namespace {

// Every instruction set that this machine has gives the same frame, and every one decodes it.
void expect_roundtrip(const Bytes& before, const Bytes& after, Dtype dtype) {
  static SlabEncoder encoder;  // reused, as threads reuse theirs
  static SlabDecoder decoder;
  Bytes first;
  for (Simd simd : every_simd()) {
    force_simd(simd);
    SCOPED_TRACE(kernels().name);
    Bytes frame;
    Digest parent_digest;
    const Encoded encoded = encoder.encode_delta(before, after, dtype, frame, &parent_digest);
    EXPECT_EQ(parent_digest, digest_of(before));
    EXPECT_EQ(encoded.changed, before != after);
    EXPECT_EQ(encoded.digest, digest_of(after));
    EXPECT_EQ(encoded.elements, after.size() / model_of(dtype).width);
    EXPECT_LE(frame.size(), after.size() + after.size() / 1000 + 64);
    if (simd == Simd::scalar) first = frame;
    ASSERT_EQ(frame, first);
    if (!encoded.changed) {
      EXPECT_TRUE(frame.empty());
      continue;
    }
    Bytes slab = before;
    const auto decoded = decoder.decode_in_place(frame, dtype, slab);
    ASSERT_TRUE(decoded.ok()) << decoded.error().message;
    EXPECT_EQ(decoded->digest, encoded.digest);
    EXPECT_EQ(decoded->changed_elements, encoded.changed_elements);
    ASSERT_EQ(slab, after);
    const auto info = inspect_frame(frame);
    ASSERT_TRUE(info.ok());
    EXPECT_EQ(info->elements, encoded.elements);
    EXPECT_EQ(info->changed_elements, encoded.changed_elements);
  }
  force_simd(detected_simd());
}

std::uint64_t new_seed() { return std::random_device{}(); }

TEST(CodecRoundtrip, RandomBitsOfEveryDtypeAtEveryDensity) {
  const std::uint64_t seed = new_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  for (Dtype dtype : kTensorDtypes) {
    SCOPED_TRACE(testing::Message() << "dtype " << int(dtype));
    for (unsigned density : {0u, 1u, 20u, 300u, 600u, 990u, 1000u}) {
      for (std::size_t elements : {0u, 1u, 2u, 63u, 2048u, 2049u, 20'011u}) {
        const SlabPair pair = random_slabs(dtype, elements, density, seed + elements);
        expect_roundtrip(pair.before, pair.after, dtype);
      }
    }
  }
}

TEST(CodecRoundtrip, TrainedWeights) {
  const std::uint64_t seed = new_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  for (Dtype dtype : {Dtype::bf16, Dtype::f16, Dtype::f32, Dtype::f64, Dtype::f8_e4m3, Dtype::f8_e5m2}) {
    SCOPED_TRACE(testing::Message() << "dtype " << int(dtype));
    for (double update : {1.0, 1e-2, 1e-4, 1e-6}) {
      const SlabPair pair = trained_slabs(dtype, 100'000 + seed % 5000, update, seed);
      expect_roundtrip(pair.before, pair.after, dtype);
    }
  }
}

TEST(CodecRoundtrip, ClassesThatAreEmptyFullOrOneElement) {
  TestRandom random(11);
  for (unsigned kept : {1u, 2u, 5u}) {  // only that many different exponents
    Bytes before(2 * 10'000);
    for (std::size_t i = 0; i < before.size(); i += 2) {
      const std::uint16_t bits = static_cast<std::uint16_t>((100 + random.below(kept) * 7) << 7 | random.below(128));
      std::memcpy(before.data() + i, &bits, 2);
    }
    for (std::size_t changed : {std::size_t{1}, std::size_t{7}, std::size_t{10'000}}) {
      Bytes after = before;
      for (std::size_t i = 0; i < changed; ++i) after[2 * (changed == 10'000 ? i : random.below(10'000))] ^= std::byte{1};
      expect_roundtrip(before, after, Dtype::bf16);
    }
  }
}

TEST(CodecRoundtrip, PatternsThatFloatsWouldConfuse) {
  // -0, infinities, quiet and signalling NaNs with payloads, subnormals: each turns into each.
  const std::vector<std::uint16_t> patterns = {0x0000, 0x8000, 0x0001, 0x8001, 0x7F80, 0xFF80, 0x7F81, 0x7FC0,
                                               0xFFFF, 0x7FFF, 0x3F80, 0xBF80, 0x007F, 0x0080};
  Bytes before, after;
  for (int copies = 0; copies < 30; ++copies) {
    for (std::uint16_t was : patterns) {
      for (std::uint16_t is : patterns) {
        for (auto [bits, to] : {std::pair{was, &before}, std::pair{is, &after}}) {
          to->push_back(static_cast<std::byte>(bits & 0xFF));
          to->push_back(static_cast<std::byte>(bits >> 8));
        }
      }
    }
  }
  for (Dtype dtype : {Dtype::bf16, Dtype::f16, Dtype::i16, Dtype::f32, Dtype::f64, Dtype::f8_e5m2}) {
    expect_roundtrip(before, after, dtype);
  }
}

TEST(CodecRoundtrip, SignFlips) {
  SlabPair pair = trained_slabs(Dtype::bf16, 5000, 0, 3);
  for (std::size_t i = 1; i < pair.after.size(); i += 2) pair.after[i] ^= std::byte{0x80};
  expect_roundtrip(pair.before, pair.after, Dtype::bf16);
}

TEST(CodecRoundtrip, ConstantsAndZeros) {
  for (Dtype dtype : kTensorDtypes) {
    const std::size_t bytes = 3000 * model_of(dtype).width;
    expect_roundtrip(Bytes(bytes), Bytes(bytes, std::byte{0x3C}), dtype);
    expect_roundtrip(Bytes(bytes, std::byte{0xFF}), Bytes(bytes), dtype);
  }
}

TEST(CodecRoundtrip, OneLateChangeInALargeSlab) {
  Bytes before(8u << 20, std::byte{0x3C}), after = before;
  after[after.size() - 2] = std::byte{0x3D};
  expect_roundtrip(before, after, Dtype::bf16);
  Bytes frame;
  SlabEncoder().encode_delta(before, after, Dtype::bf16, frame);
  EXPECT_LE(frame.size(), 32u);
}

TEST(CodecRoundtrip, Anchors) {
  SlabEncoder encoder;
  SlabDecoder decoder;
  for (Dtype dtype : kTensorDtypes) {
    SCOPED_TRACE(testing::Message() << "dtype " << int(dtype));
    for (std::size_t elements : {0u, 1u, 31u, 5000u, 70'001u}) {
      const SlabPair pair = model_of(dtype).is_float ? trained_slabs(dtype, elements, 0, elements)
                                                     : random_slabs(dtype, elements, 0, elements);
      Bytes first;
      for (Simd simd : every_simd()) {
        force_simd(simd);
        SCOPED_TRACE(kernels().name);
        Bytes frame;
        const Encoded encoded = encoder.encode_anchor(pair.before, dtype, frame);
        EXPECT_TRUE(encoded.changed);
        EXPECT_EQ(encoded.changed_elements, elements);
        EXPECT_LE(frame.size(), pair.before.size() + pair.before.size() / 1000 + 64);
        if (simd == Simd::scalar) first = frame;
        ASSERT_EQ(frame, first);
        Bytes slab(pair.before.size(), std::byte{0xA5});
        const auto decoded = decoder.decode_in_place(frame, dtype, slab);
        ASSERT_TRUE(decoded.ok()) << decoded.error().message;
        ASSERT_EQ(slab, pair.before);
        EXPECT_EQ(decoded->digest, digest_of(pair.before));
        EXPECT_FALSE(inspect_frame(frame)->needs_parent);
      }
      force_simd(detected_simd());
    }
  }
}

// Values outside the window of tokens: tiny ones among weights, and infinities.
TEST(CodecRoundtrip, AnchorsWithOutliers) {
  SlabPair pair = trained_slabs(Dtype::bf16, 50'000, 0, 5);
  for (std::size_t i = 0; i < pair.before.size(); i += 998) {
    const std::uint16_t bits = static_cast<std::uint16_t>(i % 3 == 0 ? 0xFF80 : i % 3 == 1 ? 0x0003 : 0x0000);
    std::memcpy(pair.before.data() + i, &bits, 2);
  }
  Bytes frame;
  SlabEncoder().encode_anchor(pair.before, Dtype::bf16, frame);
  EXPECT_LT(frame.size(), pair.before.size() * 7 / 10);
  Bytes slab(pair.before.size());
  ASSERT_TRUE(SlabDecoder().decode_in_place(frame, Dtype::bf16, slab).ok());
  EXPECT_EQ(slab, pair.before);
}

TEST(CodecRoundtrip, ByteSlabsMayChangeSize) {
  SlabEncoder encoder;
  SlabDecoder decoder;
  TestRandom random(3);
  Bytes before(100'000);
  for (auto& b : before) b = static_cast<std::byte>(random.next() & 0xFF);
  Bytes after = before;
  after.insert(after.begin() + 5000, std::byte{1});
  for (const auto& [from, to] :
       {std::pair{before, after}, std::pair{after, before}, std::pair{Bytes{}, after}, std::pair{after, Bytes{}}}) {
    Bytes frame;
    EXPECT_TRUE(encoder.encode_delta(from, to, Dtype::bytes, frame).changed);
    Bytes out{std::byte{1}};
    const auto decoded = decoder.decode_bytes(frame, from, out);
    ASSERT_TRUE(decoded.ok()) << decoded.error().message;
    EXPECT_EQ(out, to);
    EXPECT_EQ(decoded->digest, digest_of(to));
    if (!from.empty()) {
      EXPECT_LT(frame.size(), 200u);
    }
  }
}

}  // namespace
}  // namespace p2pw::codec
