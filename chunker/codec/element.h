// How the codec sees the elements of a dtype: their width, their order and their class.
//
// Order. A float's bits, read as sign and magnitude, are put on a line of integers on which neighbouring numbers are
// neighbours (-0 just below +0). The change of an element is the signed step on that line, modulo 2^width, so that
// every pair of bit patterns has exactly one step. Integers are their own line. Nothing is ever compared as a float:
// -0, infinities and NaN payloads are patterns like any other.
//
// Exponent. The spacing of numbers doubles with each exponent, so how likely an element is to change, and by how many
// steps, follows from the exponent it had. Integers have none: all are of exponent 0.
#pragma once

#include <cstdint>
#include <type_traits>

#include "chunker/dtype.h"

namespace p2pw::codec {

struct ElementModel {
  unsigned width = 1;  // bytes: 1, 2, 4 or 8
  bool is_float = false;
  unsigned mantissa_bits = 0;
  unsigned exponent_bits = 0;
};

constexpr ElementModel model_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::bf16: return {2, true, 7, 8};
    case Dtype::f16: return {2, true, 10, 5};
    case Dtype::f32: case Dtype::c64: return {4, true, 23, 8};
    case Dtype::f64: return {8, true, 52, 11};
    case Dtype::f8_e4m3: case Dtype::f8_e4m3fnuz: return {1, true, 3, 4};
    case Dtype::f8_e5m2: case Dtype::f8_e5m2fnuz: return {1, true, 2, 5};
    case Dtype::i16: case Dtype::u16: return {2, false, 0, 0};
    case Dtype::i32: case Dtype::u32: return {4, false, 0, 0};
    case Dtype::i64: case Dtype::u64: return {8, false, 0, 0};
    case Dtype::bytes: case Dtype::boolean: case Dtype::u8: case Dtype::i8: case Dtype::f8_e8m0: case Dtype::f4:
    case Dtype::f6_e2m3: case Dtype::f6_e3m2: break;
  }
  return {1, false, 0, 0};
}

template <class T>
constexpr T to_line(T bits) {
  using Signed = std::make_signed_t<T>;
  const T fill = static_cast<T>(static_cast<Signed>(bits) >> (sizeof(T) * 8 - 1));
  return static_cast<T>(bits ^ static_cast<T>(fill & static_cast<T>(static_cast<T>(~T{0}) >> 1)));
}
template <class T>
constexpr T from_line(T place) { return to_line(place); }  // its own inverse: the sign bit is kept

template <class T>
constexpr unsigned exponent_of(T bits, const ElementModel& model) {
  return static_cast<unsigned>(bits >> model.mantissa_bits) & ((1u << model.exponent_bits) - 1);
}

}  // namespace p2pw::codec
