// Which bits of an element are a planes-mode token, and which stand as they are.
#pragma once

#include <bit>
#include <cstdint>

#include "chunker/codec/element.h"

namespace p2pw::codec {

inline constexpr std::uint8_t kOutside = 255;  // the token of an escape, in a windowed plane

struct FieldRule {
  unsigned token_shift = 0;
  unsigned token_bits = 8;      // more than 8: tokens are of a window of 255 values, others are escapes
  std::uint64_t rest_mask = 0;  // the other bits of the element
  std::uint32_t window = 0;     // first value of the window

  unsigned rest_bits() const { return static_cast<unsigned>(std::popcount(rest_mask)); }
  bool windowed() const { return token_bits > 8; }
  template <class T>
  std::uint8_t token_of(T bits) const {
    const T value = static_cast<T>(bits >> token_shift & ((std::uint64_t{1} << token_bits) - 1));
    if (!windowed()) return static_cast<std::uint8_t>(value);
    const T inside = static_cast<T>(value - window);
    return inside < kOutside ? static_cast<std::uint8_t>(inside) : kOutside;
  }
};

constexpr FieldRule field_rule(const ElementModel& model) {
  if (model.width == 1) return {};
  // Two mantissa bits are worth having (their share falls within an exponent), more are not.
  const unsigned mantissa = model.exponent_bits == 5 ? 3 : 2;
  FieldRule rule;
  rule.token_shift = model.mantissa_bits - mantissa;
  rule.token_bits = model.exponent_bits + mantissa;
  const std::uint64_t low = (std::uint64_t{1} << rule.token_shift) - 1;
  rule.rest_mask = low | std::uint64_t{1} << (8 * model.width - 1);
  return rule;
}

}  // namespace p2pw::codec
