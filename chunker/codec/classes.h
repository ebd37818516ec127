// Classes: elements of one class change with about the same probability and by about as many steps.
//
// A float's class is how far its exponent lies below a top exponent that the frame names: class 0 is the top exponent
// and everything above, class 15 is fifteen below and everything under that. Other elements are all of class 0.
#pragma once

#include <array>
#include <cstdint>

#include "chunker/codec/element.h"
#include "chunker/codec/scratch.h"

namespace p2pw::codec {

inline constexpr unsigned kClasses = 16;

constexpr unsigned class_of(unsigned exponent, unsigned top) {
  const unsigned below = exponent >= top ? 0 : top - exponent;
  return below < kClasses ? below : kClasses - 1;
}

// The changed elements of one class, in order.
struct ClassChanges {
  Scratch<std::uint32_t> ranks;  // place among the elements of the class
  Scratch<std::uint64_t> steps;  // packed, each of the element's width
  std::size_t count = 0;
  std::uint32_t size = 0;  // of the class

  template <class T>
  T* steps_as() { return reinterpret_cast<T*>(steps.data()); }
  template <class T>
  const T* steps_as() const { return reinterpret_cast<const T*>(steps.data()); }
  void reserve(std::size_t total, std::size_t kept, std::size_t width) {
    ranks.reserve(total, kept);
    steps.reserve((total * width + 7) / 8, (kept * width + 7) / 8);
  }
};
using Changes = std::array<ClassChanges, kClasses>;

}  // namespace p2pw::codec
