#include "chunker/codec/steps.h"

#include <algorithm>

namespace p2pw::codec {
namespace {

constexpr unsigned kMaxWeight = 49;      // 0: does not occur; w: in proportion to 2^((w - 1) / 4)
constexpr unsigned kCountOrder = 4;      // Exp-Golomb orders: how many tokens, and the differences of weights
constexpr unsigned kDifferenceOrder = 1;

constexpr std::uint32_t weight_value(unsigned weight) {
  constexpr std::uint32_t kQuarter[4] = {4096, 4871, 5793, 6889};
  return weight == 0 ? 0 : kQuarter[(weight - 1) % 4] << ((weight - 1) / 4);
}

// The weight of each possible value, and back by bisection.
unsigned weight_of(std::uint32_t value) {
  if (value == 0) return 0;
  unsigned low = 0, high = kMaxWeight;
  while (low < high) {
    const unsigned middle = (low + high + 1) / 2;
    (weight_value(middle) <= value ? low : high) = weight_value(middle) <= value ? middle : middle - 1;
  }
  return low;
}

constexpr std::uint32_t fold(int difference) {
  return static_cast<std::uint32_t>(difference < 0 ? -2 * difference - 1 : 2 * difference);
}

// log2 in units of 1 / 256, by repeated squaring: the same on every machine.
constexpr std::uint32_t log256(std::uint64_t x) {
  const unsigned whole = static_cast<unsigned>(std::bit_width(x)) - 1;
  std::uint64_t part = (x << (62 - whole)) >> 31;  // in [2^31, 2^32)
  std::uint32_t result = whole;
  for (int bit = 0; bit < 8; ++bit) {
    part = part * part >> 31;
    const bool carry = part >> 32 != 0;
    part >>= carry ? 1 : 0;
    result = result << 1 | (carry ? 1 : 0);
  }
  return result;
}
constexpr auto make_share_logs() {
  std::array<std::uint16_t, kProbabilityScale + 1> logs{};
  for (std::uint32_t share = 1; share <= kProbabilityScale; ++share) logs[share] = static_cast<std::uint16_t>(log256(share));
  return logs;
}
constexpr auto kShareLogs = make_share_logs();

}  // namespace

StepTable StepTable::nearest(const TokenCounts& counts) {
  const std::uint64_t largest = *std::max_element(counts.begin(), counts.end());
  StepTable table;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    const std::uint64_t scaled = counts[i] * std::uint64_t{weight_value(kMaxWeight)} / largest;
    unsigned weight = std::max(1u, weight_of(static_cast<std::uint32_t>(scaled)));
    if (weight < kMaxWeight && scaled * 2 > std::uint64_t{weight_value(weight)} + weight_value(weight + 1)) ++weight;
    table.weight_[i] = weight_value(weight);
  }
  return table;
}

void StepTable::put(BitWriter& out) const {
  std::size_t used = weight_.size();
  while (weight_[used - 1] == 0) --used;
  out.put_golomb(used - 1, kCountOrder);
  unsigned previous = kMaxWeight;
  for (std::size_t i = 0; i < used; ++i) {
    const unsigned weight = weight_of(weight_[i]);
    out.put_golomb(fold(static_cast<int>(previous) - static_cast<int>(weight)), kDifferenceOrder);
    previous = weight;
  }
}

unsigned StepTable::bits() const {
  BitWriter scratch;
  put(scratch);
  return static_cast<unsigned>(scratch.count());
}

bool StepTable::get(BitReader& in, StepTable& table) {
  std::uint64_t last = 0;
  if (!in.get_golomb(kCountOrder, last) || last >= kMagnitudeTokens) return false;
  table.weight_ = {};
  std::int64_t weight = kMaxWeight;
  std::uint64_t total = 0;
  for (std::size_t i = 0; i <= last; ++i) {
    std::uint64_t folded = 0;
    if (!in.get_golomb(kDifferenceOrder, folded) || folded > 2 * kMaxWeight) return false;
    const std::int64_t half = static_cast<std::int64_t>(folded / 2);
    weight -= folded % 2 != 0 ? -half - 1 : half;
    if (weight < 0 || weight > kMaxWeight) return false;
    table.weight_[i] = weight_value(static_cast<unsigned>(weight));
    total += table.weight_[i];
  }
  return total != 0;
}

StepTable StepTable::coarser() const {
  // Sixteenths of the chance of k steps, k from 1.
  const auto a = [&](unsigned k) -> std::uint64_t {
    if (k <= 8) return std::uint64_t{16} * weight_[k - 1];
    if (k <= 12) return std::uint64_t{4} * weight_[8];
    if (k <= 16) return std::uint64_t{4} * weight_[9];
    return std::uint64_t{2} * weight_[10];
  };
  std::array<std::uint64_t, kMagnitudeTokens> sums{};
  for (unsigned j = 1; j <= 8; ++j) sums[j - 1] = a(2 * j - 1) / 2 + a(2 * j) + a(2 * j + 1) / 2;
  for (unsigned t = 8; t + 2 < kMagnitudeTokens; ++t) sums[t] = std::uint64_t{16} * weight_[t + 2];
  StepTable table;
  for (unsigned t = 0; t < kMagnitudeTokens; ++t) {
    table.weight_[t] = static_cast<std::uint32_t>((sums[t] + 15) / 16);
  }
  return table;
}

StepTable StepTable::finer() const {
  const auto b = [&](unsigned j) -> std::uint64_t { return weight_[j - 1]; };
  std::array<std::uint64_t, kMagnitudeTokens> quarters{};
  quarters[0] = 2 * b(1);
  for (unsigned j = 1; j <= 4; ++j) {
    quarters[2 * j - 1] = 2 * b(j);
    if (j < 4) quarters[2 * j] = b(j) + b(j + 1);
  }
  quarters[8] = b(4) + 4 * b(5) + 3 * b(6);
  quarters[9] = b(6) + 4 * b(7) + 3 * b(8);
  for (unsigned t = 10; t < kMagnitudeTokens; ++t) quarters[t] = std::uint64_t{4} * weight_[t - 2];
  StepTable table;
  for (unsigned t = 0; t < kMagnitudeTokens; ++t) {
    table.weight_[t] = static_cast<std::uint32_t>((quarters[t] + 3) / 4);
  }
  return table;
}

Shares StepTable::shares() const {
  std::array<std::uint64_t, kMagnitudeTokens> counts{};
  std::size_t used = 1;
  for (std::size_t i = 0; i < weight_.size(); ++i) {
    counts[i] = weight_[i];
    if (weight_[i] != 0) used = i + 1;
  }
  return shares_of(std::span(counts.data(), used));
}

Shares StepTable::derived_shares(int distance) const {
  StepTable table = *this;
  for (; distance > 0; --distance) table = table.finer();
  for (; distance < 0; ++distance) table = table.coarser();
  std::array<std::uint64_t, kMagnitudeTokens + 1> counts{};
  for (std::size_t i = 0; i < kMagnitudeTokens; ++i) counts[i] = table.weight_[i];
  counts[kUnforeseen] = 1;
  return shares_of(counts);
}

std::uint64_t cost_of(const TokenCounts& counts, const Shares& shares, unsigned plain_bits) {
  constexpr std::uint32_t kWhole = kShareLogs[kProbabilityScale];
  std::uint64_t cost = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const std::uint32_t share = shares.share[i] != 0 ? kShareLogs[shares.share[i]] : kShareLogs[shares.share[kUnforeseen]];
    cost += std::uint64_t{counts[i]} * (kWhole - share + (shares.share[i] != 0 ? 0 : 256 * plain_bits));
  }
  return cost / 256;
}

std::uint64_t least_cost_of(const TokenCounts& counts) {
  std::uint64_t total = 0, cost = 0;
  for (std::uint32_t count : counts) {
    total += count;
    if (count != 0) cost += count * std::uint64_t{log256(count)};
  }
  return total == 0 ? 0 : (total * log256(total) - cost) / 256;
}

}  // namespace p2pw::codec
