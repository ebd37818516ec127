#include "tests/bench/src/floor.h"

#include <cmath>
#include <map>
#include <unordered_map>

#include "chunker/codec/bit_io.h"
#include "chunker/codec/steps.h"

namespace p2pw::bench {
namespace {

struct Statistics {
  std::uint64_t elements = 0, changed = 0;
  std::unordered_map<std::uint64_t, std::uint64_t> magnitudes;
};

template <class T>
void gather(ByteView before, ByteView after, const codec::ElementModel& model, std::vector<Statistics>& statistics) {
  for (std::size_t at = 0; at < after.size(); at += sizeof(T)) {
    const T was = codec::load_le<T>(before.data() + at), is = codec::load_le<T>(after.data() + at);
    Statistics& s = statistics[model.is_float ? codec::exponent_of(was, model) : 0];
    ++s.elements;
    if (was == is) continue;
    ++s.changed;
    const T step = static_cast<T>(model.is_float ? codec::to_line(is) - codec::to_line(was) : is - was);
    ++s.magnitudes[codec::magnitude_of(step)];
  }
}

double entropy(const std::vector<std::uint64_t>& counts) {
  double total = 0, bits = 0;
  for (std::uint64_t c : counts) total += static_cast<double>(c);
  for (std::uint64_t c : counts) {
    if (c != 0) bits -= static_cast<double>(c) * std::log2(static_cast<double>(c) / total);
  }
  return bits;
}

// Code length of the estimator that gives each symbol (count so far + 1/2) shares.
double learned(const std::vector<std::uint64_t>& counts) {
  double total = 0, log = 0;
  const double m = static_cast<double>(counts.size());
  for (std::uint64_t c : counts) {
    total += static_cast<double>(c);
    log += std::lgamma(static_cast<double>(c) + 0.5) - std::lgamma(0.5);
  }
  log += std::lgamma(m / 2) - std::lgamma(total + m / 2);
  return -log / std::log(2.0);
}

}  // namespace

Floor entropy_floor(const Pair& pair) {
  std::map<Dtype, std::vector<Statistics>> all;
  for (std::size_t s = 0; s < pair.slabs.size(); ++s) {
    const codec::ElementModel model = codec::model_of(pair.slabs[s].dtype);
    auto& statistics = all[pair.slabs[s].dtype];
    statistics.resize(std::size_t{1} << model.exponent_bits);
    switch (model.width) {
      case 1: gather<std::uint8_t>(pair.old_slab(s), pair.new_slab(s), model, statistics); break;
      case 2: gather<std::uint16_t>(pair.old_slab(s), pair.new_slab(s), model, statistics); break;
      case 4: gather<std::uint32_t>(pair.old_slab(s), pair.new_slab(s), model, statistics); break;
      default: gather<std::uint64_t>(pair.old_slab(s), pair.new_slab(s), model, statistics); break;
    }
  }
  Floor floor;
  for (const auto& [dtype, statistics] : all) {
    for (const Statistics& s : statistics) {
      if (s.elements == 0) continue;
      std::vector<std::uint64_t> magnitudes;
      for (const auto& [magnitude, count] : s.magnitudes) magnitudes.push_back(count);
      const std::vector<std::uint64_t> positions = {s.changed, s.elements - s.changed};
      const double signs = static_cast<double>(s.changed);
      floor.empirical_bits += entropy(positions) + signs + entropy(magnitudes);
      floor.adaptive_bits += learned(positions) + signs + (magnitudes.empty() ? 0 : learned(magnitudes));
    }
  }
  return floor;
}

}  // namespace p2pw::bench
