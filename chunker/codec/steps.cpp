#include "chunker/codec/steps.h"

#include <algorithm>

namespace p2pw::codec {
namespace {

constexpr unsigned kMaxWeight = 49;  // 0: does not occur; w: in proportion to 2^((w - 1) / 4)

std::uint64_t weight_value(unsigned weight) {
  static constexpr std::uint64_t kQuarter[4] = {65536, 77936, 92682, 110218};
  return weight == 0 ? 0 : kQuarter[(weight - 1) % 4] << ((weight - 1) / 4);
}

void build_from(std::span<const std::uint8_t> weights, RansModel& model) {
  std::vector<std::uint64_t> values(weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i) values[i] = weight_value(weights[i]);
  model.build(shares_of(values));
}

}  // namespace

void put_table(std::span<const std::uint64_t> counts, BitWriter& out, RansModel& model) {
  std::size_t used = counts.size();
  while (used > 1 && counts[used - 1] == 0) --used;
  const std::uint64_t largest = *std::max_element(counts.begin(), counts.end());
  out.put_golomb(used - 1, 4);
  std::vector<std::uint8_t> weights(used);
  unsigned previous = kMaxWeight;
  for (std::size_t i = 0; i < used; ++i) {
    unsigned weight = 0;
    if (counts[i] != 0) {
      // The nearest quarter octave below the largest, which gets kMaxWeight.
      weight = kMaxWeight;
      while (weight > 1 && counts[i] * weight_value(kMaxWeight) < largest * ((weight_value(weight) + weight_value(weight - 1)) / 2)) {
        --weight;
      }
    }
    weights[i] = static_cast<std::uint8_t>(weight);
    const int difference = static_cast<int>(previous) - static_cast<int>(weight);
    out.put_golomb(static_cast<std::uint64_t>(difference < 0 ? -2 * difference - 1 : 2 * difference), 2);
    previous = weight;
  }
  build_from(weights, model);
}

bool get_table(BitReader& in, unsigned max_symbols, RansModel& model) {
  std::uint64_t used = 0;
  if (!in.get_golomb(4, used) || used >= max_symbols) return false;
  std::vector<std::uint8_t> weights(static_cast<std::size_t>(used) + 1);
  std::int64_t previous = kMaxWeight;
  for (auto& weight : weights) {
    std::uint64_t folded = 0;
    if (!in.get_golomb(2, folded) || folded > 2 * kMaxWeight) return false;
    const std::int64_t half = static_cast<std::int64_t>(folded / 2);
    previous -= folded % 2 != 0 ? -half - 1 : half;
    if (previous < 0 || previous > kMaxWeight) return false;
    weight = static_cast<std::uint8_t>(previous);
  }
  if (std::all_of(weights.begin(), weights.end(), [](std::uint8_t w) { return w == 0; })) return false;
  build_from(weights, model);
  return true;
}

}  // namespace p2pw::codec
