#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "chunker/codec/codec.h"
#include "chunker/codec/element.h"
#include "chunker/codec/kernels.h"

namespace p2pw::codec {
namespace {

constexpr Dtype kAll[] = {Dtype::boolean, Dtype::u8, Dtype::i8, Dtype::f8_e5m2, Dtype::f8_e4m3, Dtype::f8_e8m0,
                          Dtype::f8_e4m3fnuz, Dtype::f8_e5m2fnuz, Dtype::i16, Dtype::u16, Dtype::f16, Dtype::bf16,
                          Dtype::i32, Dtype::u32, Dtype::f32, Dtype::c64, Dtype::f64, Dtype::i64, Dtype::u64,
                          Dtype::f4, Dtype::f6_e2m3, Dtype::f6_e3m2};

// Every instruction set that this machine has gives the same frame, and every one decodes it.
void expect_roundtrip(const Bytes& parent, const Bytes& now, Dtype dtype) {
  SlabEncoder encoder;
  SlabDecoder decoder;
  Bytes first;
  for (Simd simd : {Simd::scalar, Simd::avx2, Simd::avx512}) {
    if (!force_simd(simd)) continue;
    SCOPED_TRACE(kernels().name);
    Bytes frame;
    const Encoded encoded = encoder.encode_delta(parent, now, dtype, frame);
    EXPECT_EQ(encoded.changed, parent != now);
    EXPECT_EQ(encoded.digest, digest_of(now));
    EXPECT_LE(frame.size(), now.size() + now.size() / 1000 + 64);
    if (simd == Simd::scalar) first = frame;
    ASSERT_EQ(frame, first);
    if (!encoded.changed) {
      EXPECT_TRUE(frame.empty());
      continue;
    }
    Bytes slab = parent;
    const auto decoded = decoder.decode_in_place(frame, dtype, slab);
    ASSERT_TRUE(decoded.ok()) << decoded.error().message;
    EXPECT_EQ(decoded->digest, encoded.digest);
    EXPECT_EQ(decoded->changed_elements, encoded.changed_elements);
    ASSERT_EQ(slab, now);
  }
  force_simd(detected_simd());
}

TEST(CodecRoundtrip, RandomBitsAtEveryDensity) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (Dtype dtype : kAll) {
    SCOPED_TRACE(testing::Message() << "dtype " << int(dtype));
    const std::size_t width = model_of(dtype).width;
    for (double density : {0.0, 0.001, 0.02, 0.3, 0.6, 0.99, 1.0}) {
      for (std::size_t count : {0u, 1u, 2u, 63u, 4097u, 20011u}) {
        Bytes parent(count * width);
        for (auto& b : parent) b = static_cast<std::byte>(random());
        Bytes now = parent;
        for (std::size_t i = 0; i < count; ++i) {
          if (std::uniform_real_distribution<>(0, 1)(random) < density) {
            const bool small = random() % 2 == 0;
            for (std::size_t k = 0; k < width; ++k) {
              if (k == 0 || !small) now[i * width + k] ^= static_cast<std::byte>(random());
            }
          }
        }
        expect_roundtrip(parent, now, dtype);
      }
    }
  }
}

// Weights as they are: most changes +-1, more of them the smaller the weight.
TEST(CodecRoundtrip, AdamLikeSteps) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 0.02f);
  for (Dtype dtype : {Dtype::bf16, Dtype::f16, Dtype::f32, Dtype::f8_e4m3, Dtype::f8_e5m2}) {
    const ElementModel model = model_of(dtype);
    SCOPED_TRACE(testing::Message() << "dtype " << int(dtype));
    // Steps of about 2^-k of the spacing around 0.02.
    for (int k : {0, 3, 6, 12}) {
      const std::size_t count = 100'000 + random() % 5000;
      Bytes parent(count * model.width), now(count * model.width);
      for (std::size_t i = 0; i < count; ++i) {
        // A position on the dtype's line for a float, by its exponent and mantissa.
        const float before = normal(random), after = before + std::ldexp(normal(random), -k - 3);
        for (auto [value, out] : {std::pair{before, &parent}, std::pair{after, &now}}) {
          std::uint32_t f;
          std::memcpy(&f, &value, 4);
          const int exponent = std::max(0, static_cast<int>(f >> 23 & 0xFF) - 127 + (1 << (model.exponent_bits - 1)) + 6);
          const std::uint64_t bits = std::uint64_t{f >> 31} << (8 * model.width - 1) |
                                     std::uint64_t(exponent) << model.mantissa_bits |
                                     (f & 0x7FFFFF) >> (23 - model.mantissa_bits);
          std::memcpy(out->data() + i * model.width, &bits, model.width);
        }
      }
      expect_roundtrip(parent, now, dtype);
    }
  }
}

TEST(CodecRoundtrip, AnchorsOfEveryDtype) {
  std::mt19937_64 random(7);
  SlabEncoder encoder;
  SlabDecoder decoder;
  for (Dtype dtype : kAll) {
    for (std::size_t count : {0u, 1u, 5000u}) {
      Bytes now(count * model_of(dtype).width);
      for (auto& b : now) b = static_cast<std::byte>(random() % 7);
      Bytes frame;
      EXPECT_TRUE(encoder.encode_anchor(now, dtype, frame).changed);
      Bytes slab(now.size(), std::byte{0xA5});
      const auto decoded = decoder.decode_in_place(frame, dtype, slab);
      ASSERT_TRUE(decoded.ok()) << decoded.error().message;
      EXPECT_EQ(slab, now);
      EXPECT_EQ(decoded->digest, digest_of(now));
    }
  }
}

TEST(CodecRoundtrip, ByteSlabsMayChangeSize) {
  SlabEncoder encoder;
  SlabDecoder decoder;
  std::mt19937_64 random(3);
  Bytes parent(100'000);
  for (auto& b : parent) b = static_cast<std::byte>(random());
  Bytes now = parent;
  now.insert(now.begin() + 5000, std::byte{1});
  for (const auto& [from, to] : {std::pair{parent, now}, std::pair{now, parent}, std::pair{Bytes{}, now}, std::pair{now, Bytes{}}}) {
    Bytes frame;
    EXPECT_TRUE(encoder.encode_delta(from, to, Dtype::bytes, frame).changed);
    Bytes out{std::byte{1}};
    const auto decoded = decoder.decode_bytes(frame, from, out);
    ASSERT_TRUE(decoded.ok()) << decoded.error().message;
    EXPECT_EQ(out, to);
    if (!from.empty()) {
      EXPECT_LT(frame.size(), 200u);
    }
  }
}

}  // namespace
}  // namespace p2pw::codec
