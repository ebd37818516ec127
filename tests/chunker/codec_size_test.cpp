// Frames stay near what is known to be possible: a coder that got worse would still pass every round trip.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "chunker/codec/steps.h"
#include "tests/chunker/codec_data.h"

namespace p2pw::codec {
namespace {

// Bits that changed elements, directions and magnitudes need when only the old exponent is known.
double floor_bits(const SlabPair& pair, Dtype dtype) {
  const ElementModel model = model_of(dtype);
  struct Statistics {
    double elements = 0, changed = 0;
    std::map<std::uint16_t, double> magnitudes;
  };
  std::map<unsigned, Statistics> all;
  for (std::size_t i = 0; i < pair.before.size(); i += 2) {
    std::uint16_t was, is;
    std::memcpy(&was, pair.before.data() + i, 2);
    std::memcpy(&is, pair.after.data() + i, 2);
    Statistics& s = all[exponent_of(was, model)];
    s.elements += 1;
    if (was == is) continue;
    s.changed += 1;
    s.magnitudes[magnitude_of(static_cast<std::uint16_t>(to_line(is) - to_line(was)))] += 1;
  }
  double bits = 0;
  const auto entropy = [](double part, double whole) { return part == 0 ? 0 : -part * std::log2(part / whole); };
  for (const auto& [exponent, s] : all) {
    bits += entropy(s.changed, s.elements) + entropy(s.elements - s.changed, s.elements) + s.changed;
    for (const auto& [magnitude, count] : s.magnitudes) bits += entropy(count, s.changed);
  }
  return bits;
}

TEST(CodecSize, DeltasAreWithinOnePercentOfTheFloor) {
  for (double update : {2e-5, 1e-4, 1e-3}) {
    const SlabPair pair = trained_slabs(Dtype::bf16, 4u << 20, update, 7);
    Bytes frame;
    const Encoded encoded = SlabEncoder().encode_delta(pair.before, pair.after, Dtype::bf16, frame);
    const double floor = floor_bits(pair, Dtype::bf16), bits = 8.0 * static_cast<double>(frame.size());
    EXPECT_LT(bits, 1.01 * floor) << "density " << static_cast<double>(encoded.changed_elements) / (4u << 20);
    EXPECT_GT(bits, 0.99 * floor);
  }
}

TEST(CodecSize, AnchorsOfBf16) {
  const SlabPair pair = trained_slabs(Dtype::bf16, 1u << 20, 0, 8);
  Bytes frame;
  SlabEncoder().encode_anchor(pair.before, Dtype::bf16, frame);
  EXPECT_LT(static_cast<double>(frame.size()), 0.665 * static_cast<double>(pair.before.size()));
}

// Scales of quantised blocks: all change, by little.
TEST(CodecSize, DenseSmallStepsOfF32) {
  const SlabPair pair = trained_slabs(Dtype::f32, 100'000, 1e-5, 9);
  Bytes frame;
  const Encoded encoded = SlabEncoder().encode_delta(pair.before, pair.after, Dtype::f32, frame);
  EXPECT_GT(encoded.changed_elements, 90'000u);
  EXPECT_LT(static_cast<double>(frame.size()), 0.35 * static_cast<double>(pair.after.size()));
}

TEST(CodecSize, DigestsAndCountsCostLittle) {
  SlabPair pair = trained_slabs(Dtype::bf16, 1000, 0, 10);
  pair.after[500] ^= std::byte{1};
  Bytes frame;
  SlabEncoder().encode_delta(pair.before, pair.after, Dtype::bf16, frame);
  EXPECT_LE(frame.size(), 24u);
}

}  // namespace
}  // namespace p2pw::codec
