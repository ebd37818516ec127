// Training that is made up but moves weights as AdamW does: fp32 master weights take steps of momentum over gradient
// noise, and only the cast to the checkpoint's dtype is stored. Small weights, whose neighbours in the dtype lie close,
// change often; large ones seldom.
//
// Everything is a function of the seed and the place in the model, whatever the number of threads and the machine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "chunker/dtype.h"

namespace p2pw::series {

// 32 streams of Marsaglia's xorshift128, side by side so that compilers use vector registers.
class Noise {
 public:
  static constexpr std::size_t kLanes = 32;
  explicit Noise(std::uint64_t seed);
  // `out` is a multiple of kLanes long.
  void fill(std::span<std::uint32_t> out);

 private:
  std::array<std::array<std::uint32_t, kLanes>, 4> state_;
};

struct StepRule {
  float rate = 0;                       // how far one step goes
  double touched = 1;                   // share of elements that a step touches at all
  bool redraw = false;                  // every step draws the weights anew
};

// A run of elements of one tensor and its training state.
class Block {
 public:
  // Draws the weights of step 0: mean + spread x about a normal distribution.
  Block(std::uint64_t seed, std::size_t elements, float mean, float spread);
  void step(const StepRule& rule);
  std::span<const float> weights() const { return {weights_.data(), elements_}; }

 private:
  void draw();
  std::size_t elements_;
  float mean_, spread_;
  Noise noise_;
  std::vector<float> weights_, momentum_;  // padded to whole lanes
  std::vector<std::uint32_t> random_;
};

// `out` gets the weights in `dtype` (BF16, F16, F32 or F8_E4M3), rounded to nearest even, times `scale`.
void cast(std::span<const float> weights, float scale, Dtype dtype, std::span<std::byte> out);

// The rate at which about `share` of the elements of a matrix in `dtype` change in one step.
StepRule calibrate(Dtype dtype, float spread, double share);

std::uint64_t count_changed(std::span<const std::byte> a, std::span<const std::byte> b, unsigned width);

// Mixes two numbers into a seed.
std::uint64_t mix(std::uint64_t a, std::uint64_t b);

}  // namespace p2pw::series
