// Steps of the changed elements of one class. The direction is a plain bit. In most classes every step is +1 or -1; in
// the others the magnitude less one is a token, with a table, and plain bits.
//
// Tables need not all be carried. An update of some size is twice as many steps where numbers lie half as far apart,
// so one class's table follows from its neighbour's: where u / spacing is not whole, rounding gives the two nearest
// steps in proportion, and doubling the spacing turns the chances a[k] of k steps into
// a[2j - 1] / 2 + a[2j] + a[2j + 1] / 2, exactly. The other direction is an interpolation.
#pragma once

#include <array>

#include "chunker/codec/bit_io.h"
#include "chunker/codec/rans.h"

namespace p2pw::codec {

// v is the magnitude less one. The larger, the coarser its token: 0 to 7 exactly, then two tokens for each doubling.
struct MagnitudeToken {
  std::uint8_t token;
  std::uint8_t extra_bits;
};
inline constexpr unsigned kExactTokens = 8;
constexpr MagnitudeToken magnitude_token(std::uint64_t v) {
  if (v < kExactTokens) return {static_cast<std::uint8_t>(v), 0};
  const unsigned log = static_cast<unsigned>(std::bit_width(v)) - 1;
  return {static_cast<std::uint8_t>(8 + (log - 3) * 2 + (v >> (log - 1) & 1)), static_cast<std::uint8_t>(log - 1)};
}
constexpr unsigned extra_bits_of(unsigned token) { return token < kExactTokens ? 0 : (token - 8) / 2 + 2; }
constexpr std::uint64_t base_of(unsigned token) {
  return token < kExactTokens ? token : std::uint64_t{2 + (token & 1)} << extra_bits_of(token);
}
inline constexpr unsigned kMagnitudeTokens = 130;
// The token for what a derived table did not foresee: the magnitude stands in the plain bits as it is.
inline constexpr std::uint8_t kUnforeseen = kMagnitudeTokens;

template <class T>
constexpr T magnitude_of(T step) {
  using Signed = std::make_signed_t<T>;
  return static_cast<T>(static_cast<Signed>(step) < 0 ? T{0} - step : step);
}

using TokenCounts = std::array<std::uint32_t, kMagnitudeTokens>;

// How often each token occurs, in proportion.
class StepTable {
 public:
  // As the frame carries it: the logarithm of each share in quarter octaves.
  static StepTable nearest(const TokenCounts& counts);
  void put(BitWriter& out) const;
  unsigned bits() const;  // that put() takes
  static bool get(BitReader& in, StepTable& table);

  Shares shares() const;
  // What follows for the class that is `distance` below (its spacing 2^distance finer; negative: coarser). kUnforeseen
  // has the least share.
  Shares derived_shares(int distance) const;

 private:
  StepTable coarser() const;
  StepTable finer() const;
  std::array<std::uint32_t, kMagnitudeTokens> weight_{};
};

// What `counts` cost with `shares`, in bits, when what is unforeseen takes `plain_bits` more.
std::uint64_t cost_of(const TokenCounts& counts, const Shares& shares, unsigned plain_bits);
// The same with the best shares there are.
std::uint64_t least_cost_of(const TokenCounts& counts);

}  // namespace p2pw::codec
