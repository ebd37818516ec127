// Slabs for the codec's tests: the same on every machine and with every standard library.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "chunker/codec/codec.h"
#include "chunker/codec/element.h"
#include "chunker/codec/kernels.h"

namespace p2pw::codec {

inline constexpr Dtype kTensorDtypes[] = {
    Dtype::boolean, Dtype::u8, Dtype::i8, Dtype::f8_e5m2, Dtype::f8_e4m3, Dtype::f8_e8m0, Dtype::f8_e4m3fnuz,
    Dtype::f8_e5m2fnuz, Dtype::i16, Dtype::u16, Dtype::f16, Dtype::bf16, Dtype::i32, Dtype::u32, Dtype::f32,
    Dtype::c64, Dtype::f64, Dtype::i64, Dtype::u64, Dtype::f4, Dtype::f6_e2m3, Dtype::f6_e3m2};

inline std::vector<Simd> every_simd() {
  std::vector<Simd> all;
  for (Simd simd : {Simd::scalar, Simd::avx2, Simd::avx512}) {
    if (force_simd(simd)) all.push_back(simd);
  }
  force_simd(detected_simd());
  return all;
}

// SplitMix64 (S. Vigna).
class TestRandom {
 public:
  explicit TestRandom(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
  }
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  // About normal, of standard deviation 1: twelve uniform numbers, exact in every float.
  double normal() {
    std::int64_t sum = 0;
    for (int i = 0; i < 3; ++i) {
      for (std::uint64_t bits = next(), k = 0; k < 4; ++k, bits >>= 16) sum += static_cast<std::int64_t>(bits & 0xFFFF);
    }
    return static_cast<double>(sum - 12 * 32768) / 65536;
  }

 private:
  std::uint64_t state_;
};

// The float of `dtype` nearest below in magnitude, as bits; exponents out of range become the least or greatest.
inline std::uint64_t float_bits(double value, Dtype dtype) {
  const ElementModel model = model_of(dtype);
  std::uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const std::int64_t bias = (std::int64_t{1} << (model.exponent_bits - 1)) - 1;
  const std::int64_t greatest = (std::int64_t{1} << model.exponent_bits) - 2;
  std::int64_t exponent = static_cast<std::int64_t>(bits >> 52 & 0x7FF) - 1023 + bias;
  std::uint64_t mantissa = (bits & ((std::uint64_t{1} << 52) - 1)) >> (52 - model.mantissa_bits);
  if (exponent < 0) exponent = 0, mantissa = 0;
  if (exponent > greatest) exponent = greatest;
  return bits >> 63 << (8 * model.width - 1) | static_cast<std::uint64_t>(exponent) << model.mantissa_bits | mantissa;
}

struct SlabPair {
  Bytes before, after;
};

// Weights of spread 0.02 (1 for the narrow floats) and an update of each of about `update` times that.
inline SlabPair trained_slabs(Dtype dtype, std::size_t elements, double update, std::uint64_t seed) {
  const ElementModel model = model_of(dtype);
  const double spread = model.exponent_bits < 8 ? 1 : 0.02;
  TestRandom random(seed);
  SlabPair pair{Bytes(elements * model.width), Bytes(elements * model.width)};
  for (std::size_t i = 0; i < elements; ++i) {
    const double before = spread * random.normal(), after = before + spread * update * random.normal();
    const std::uint64_t was = float_bits(before, dtype), is = float_bits(after, dtype);
    std::memcpy(pair.before.data() + i * model.width, &was, model.width);
    std::memcpy(pair.after.data() + i * model.width, &is, model.width);
  }
  return pair;
}

// Any bits; of the elements, `changed_in_1000` change, half of them only in their low byte.
inline SlabPair random_slabs(Dtype dtype, std::size_t elements, unsigned changed_in_1000, std::uint64_t seed) {
  const std::size_t width = model_of(dtype).width;
  TestRandom random(seed);
  SlabPair pair;
  pair.before.resize(elements * width);
  for (auto& b : pair.before) b = static_cast<std::byte>(random.next() & 0xFF);
  pair.after = pair.before;
  for (std::size_t i = 0; i < elements; ++i) {
    if (random.below(1000) >= changed_in_1000) continue;
    const std::size_t bytes = random.below(2) == 0 ? 1 : width;
    for (std::size_t k = 0; k < bytes; ++k) pair.after[i * width + k] ^= static_cast<std::byte>(random.next() & 0xFF);
  }
  return pair;
}

}  // namespace p2pw::codec
