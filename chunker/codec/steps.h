// Steps of the changed elements of one class. Nearly all are +1 or -1: which ones are not is a set of positions (gaps.h),
// the direction is a plain bit, and what a magnitude exceeds 2 by is a token with a table of its own and plain bits.
#pragma once

#include "chunker/codec/gaps.h"

namespace p2pw::codec {

// The larger v, the coarser its token: 0 to 7 exactly, then two tokens for each doubling.
struct MagnitudeToken {
  std::uint8_t token;
  std::uint8_t extra_bits;
};
constexpr MagnitudeToken magnitude_token(std::uint64_t v) {
  if (v < 8) return {static_cast<std::uint8_t>(v), 0};
  const unsigned log = static_cast<unsigned>(std::bit_width(v)) - 1;
  return {static_cast<std::uint8_t>(8 + (log - 3) * 2 + (v >> (log - 1) & 1)), static_cast<std::uint8_t>(log - 1)};
}
constexpr unsigned extra_bits_of(unsigned token) { return token < 8 ? 0 : (token - 8) / 2 + 2; }
constexpr std::uint64_t base_of(unsigned token) {
  return token < 8 ? token : std::uint64_t{2 + (token & 1)} << extra_bits_of(token);
}
inline constexpr unsigned kMagnitudeTokens = 130;

template <class T>
constexpr std::uint64_t magnitude_of(T step) {
  using Signed = std::make_signed_t<T>;
  return static_cast<T>(static_cast<Signed>(step) < 0 ? T{0} - step : step);
}

// A table of shares as the frame carries it: the logarithm of each share in quarter octaves, differences Golomb coded.
// Both sides build the model from what is carried.
void put_table(std::span<const std::uint64_t> counts, BitWriter& out, RansModel& model);
bool get_table(BitReader& in, unsigned max_symbols, RansModel& model);

}  // namespace p2pw::codec
