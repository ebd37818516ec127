#include "simulations/src/series/training.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace p2pw::series {
namespace {

// Wider registers where the machine has them. No fused multiply-add: results must not depend on the machine. Sanitizers
// and run-time dispatch in the loader do not go together.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define P2PW_KERNEL
#else
#define P2PW_KERNEL __attribute__((target_clones("avx2", "default")))
#endif

constexpr float kBeta = 0.9f;
constexpr float kMomentumSpread = 0.2294f;  // of an average of unit noise with kBeta
constexpr std::size_t kSample = 1u << 17;

P2PW_KERNEL void xorshift(std::uint32_t* x, std::uint32_t* y, std::uint32_t* z, std::uint32_t* w, std::uint32_t* out,
                          std::size_t rounds) {
  for (std::size_t r = 0; r < rounds; ++r, out += Noise::kLanes) {
    for (std::size_t i = 0; i < Noise::kLanes; ++i) {
      std::uint32_t t = x[i] ^ (x[i] << 11);
      x[i] = y[i];
      y[i] = z[i];
      z[i] = w[i];
      w[i] = w[i] ^ (w[i] >> 19) ^ t ^ (t >> 8);
      out[i] = w[i];
    }
  }
}

// Four bytes of noise to about a unit normal.
inline float normal_of(std::uint32_t r) {
  std::uint32_t pairs = (r & 0x00ff00ffu) + ((r >> 8) & 0x00ff00ffu);
  auto sum = static_cast<std::int32_t>((pairs & 0xffffu) + (pairs >> 16));
  return static_cast<float>(sum - 510) * (1.0f / 147.8f);
}

P2PW_KERNEL void adam(float* weights, float* momentum, const std::uint32_t* random, std::size_t n, float rate) {
  for (std::size_t i = 0; i < n; ++i) {
    float m = kBeta * momentum[i] + (1.0f - kBeta) * normal_of(random[i]);
    momentum[i] = m;
    weights[i] -= rate * m;
  }
}

// The same for a share of the elements only; the high bits of the noise decide, so take fresh ones.
P2PW_KERNEL void adam_some(float* weights, const std::uint32_t* random, const std::uint32_t* choice, std::size_t n,
                           float rate, std::uint32_t below) {
  for (std::size_t i = 0; i < n; ++i) {
    float step = rate * normal_of(random[i] | 1u) + weights[i] * 1e-6f;
    weights[i] -= choice[i] < below ? step : 0.0f;
  }
}

P2PW_KERNEL void to_bf16(const float* in, std::uint16_t* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    auto bits = std::bit_cast<std::uint32_t>(in[i]);
    out[i] = static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
  }
}

// Below the smallest normal number the float adder rounds to the grid of subnormals: add a number whose last place is
// that grid's step.
P2PW_KERNEL void to_f16(const float* in, std::uint16_t* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    auto bits = std::bit_cast<std::uint32_t>(in[i]);
    std::uint32_t sign = (bits >> 16) & 0x8000u, x = bits & 0x7fffffffu;
    x = x > 0x477fe000u ? 0x477fe000u : x;
    std::uint32_t normal = (x - 0x38000000u + 0xfffu + ((x >> 13) & 1u)) >> 13;
    std::uint32_t small = std::bit_cast<std::uint32_t>(std::bit_cast<float>(x) + 0.5f) - 0x3f000000u;
    out[i] = static_cast<std::uint16_t>(sign | (x >= 0x38800000u ? normal : small));
  }
}

P2PW_KERNEL void to_e4m3(const float* in, float scale, std::uint8_t* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    auto bits = std::bit_cast<std::uint32_t>(in[i] * scale);
    std::uint32_t sign = (bits >> 24) & 0x80u, x = bits & 0x7fffffffu;
    x = x > 0x43e00000u ? 0x43e00000u : x;  // 448
    std::uint32_t normal = (x - 0x3c000000u + 0x7ffffu + ((x >> 20) & 1u)) >> 20;
    std::uint32_t small = std::bit_cast<std::uint32_t>(std::bit_cast<float>(x) + 16384.0f) - 0x46800000u;
    out[i] = static_cast<std::uint8_t>(sign | (x >= 0x3c800000u ? normal : small));
  }
}

template <class T>
P2PW_KERNEL std::uint64_t count_different(const T* a, const T* b, std::size_t n) {
  std::uint64_t different = 0;
  for (std::size_t i = 0; i < n; ++i) different += a[i] != b[i];
  return different;
}

std::size_t whole_lanes(std::size_t n) { return (n + Noise::kLanes - 1) / Noise::kLanes * Noise::kLanes; }

}  // namespace

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {  // splitmix64's finalizer
  std::uint64_t x = a + 0x9e3779b97f4a7c15u * (b + 1);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

Noise::Noise(std::uint64_t seed) {
  std::uint64_t n = 0;
  for (auto& word : state_) {
    for (auto& lane : word) lane = static_cast<std::uint32_t>(mix(seed, n++) >> 32) | 1u;
  }
}

void Noise::fill(std::span<std::uint32_t> out) {
  xorshift(state_[0].data(), state_[1].data(), state_[2].data(), state_[3].data(), out.data(), out.size() / kLanes);
}

Block::Block(std::uint64_t seed, std::size_t elements, float mean, float spread)
    : elements_(elements), mean_(mean), spread_(spread), noise_(seed), random_(whole_lanes(elements)) {
  weights_.resize(random_.size());
  momentum_.resize(random_.size());
  noise_.fill(random_);
  for (std::size_t i = 0; i < momentum_.size(); ++i) momentum_[i] = kMomentumSpread * normal_of(random_[i]);
  draw();
}

// The sum of four uniform numbers: near a normal distribution, and fine-grained around 0, where it matters.
void Block::draw() {
  std::vector<float> sum(random_.size(), -2.0f);
  for (int k = 0; k < 4; ++k) {
    noise_.fill(random_);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<float>(random_[i] >> 8) * 0x1p-24f;
  }
  const float unit = 1.7320508f * spread_;
  for (std::size_t i = 0; i < sum.size(); ++i) weights_[i] = mean_ + unit * sum[i];
}

void Block::step(const StepRule& rule) {
  if (rule.redraw) return draw();
  noise_.fill(random_);
  if (rule.touched >= 1) return adam(weights_.data(), momentum_.data(), random_.data(), weights_.size(), rule.rate);
  std::vector<std::uint32_t> choice(random_.size());
  noise_.fill(choice);
  auto below = static_cast<std::uint32_t>(rule.touched * 4294967295.0);
  adam_some(weights_.data(), random_.data(), choice.data(), weights_.size(), rule.rate, below);
}

void cast(std::span<const float> weights, float scale, Dtype dtype, std::span<std::byte> out) {
  std::size_t n = weights.size();
  switch (dtype) {
    case Dtype::bf16: return to_bf16(weights.data(), reinterpret_cast<std::uint16_t*>(out.data()), n);
    case Dtype::f16: return to_f16(weights.data(), reinterpret_cast<std::uint16_t*>(out.data()), n);
    case Dtype::f8_e4m3:
      return to_e4m3(weights.data(), scale, reinterpret_cast<std::uint8_t*>(out.data()), n);
    default: std::memcpy(out.data(), weights.data(), n * sizeof(float));
  }
}

std::uint64_t count_changed(std::span<const std::byte> a, std::span<const std::byte> b, unsigned width) {
  switch (width) {
    case 1: return count_different(reinterpret_cast<const std::uint8_t*>(a.data()),
                                   reinterpret_cast<const std::uint8_t*>(b.data()), a.size());
    case 2: return count_different(reinterpret_cast<const std::uint16_t*>(a.data()),
                                   reinterpret_cast<const std::uint16_t*>(b.data()), a.size() / 2);
    default: return count_different(reinterpret_cast<const std::uint32_t*>(a.data()),
                                    reinterpret_cast<const std::uint32_t*>(b.data()), a.size() / 4);
  }
}

StepRule calibrate(Dtype dtype, float spread, double share) {
  StepRule rule;
  // Every fp32 weight that is touched changes: there the share is chosen directly.
  if (dtype == Dtype::f32) {
    rule.rate = spread * 1e-4f;
    rule.touched = share;
    return rule;
  }
  unsigned width = element_bytes(dtype);
  std::vector<std::byte> before(kSample * width), after(kSample * width);
  double low = 1e-9, high = 1e3;  // of the spread
  for (int i = 0; i < 40; ++i) {
    double middle = std::sqrt(low * high);
    rule.rate = spread * static_cast<float>(middle);
    Block block(1, kSample, 0, spread);
    cast(block.weights(), 1, dtype, before);
    block.step(rule);
    cast(block.weights(), 1, dtype, after);
    double changed = static_cast<double>(count_changed(before, after, width)) / kSample;
    (changed < share ? low : high) = middle;
  }
  return rule;
}

}  // namespace p2pw::series
