// The inner loops of the codec, once for each instruction set. All give the same results; which table is used is found
// out at the first call. No allocation, no errors by exception, no standard containers in here: the files of one
// instruction set are compiled for it and nothing of them may be merged with code for every machine.
#pragma once

#include <cstddef>
#include <cstdint>

#include "chunker/codec/classes.h"
#include "chunker/codec/field.h"
#include "chunker/codec/gaps.h"
#include "chunker/codec/rans.h"

namespace p2pw::codec {

// Elements are compared and patched in chunks that stay in the first-level cache with their masks.
inline constexpr std::size_t kChunkElements = 2048;

struct ClassRule {
  unsigned mantissa_bits = 0;
  unsigned exponent_mask = 0;
  unsigned top = 0;
  std::uint8_t class_of_exponent[256];  // for exponents of at most 8 bits

  ClassRule(const ElementModel& model, unsigned top_exponent)
      : mantissa_bits(model.mantissa_bits), exponent_mask((1u << model.exponent_bits) - 1), top(top_exponent) {
    for (unsigned e = 0; e < 256; ++e) class_of_exponent[e] = static_cast<std::uint8_t>(class_of(e, top));
  }
};

// Where the changed elements of each class go. REQUIRES: room for a chunk's elements.
struct CompareCursor {
  std::uint32_t* ranks[kClasses];
  void* steps[kClasses];
  std::size_t count[kClasses];
  std::uint32_t size[kClasses];  // elements of the class so far
};

// The changes of each class still to be applied. REQUIRES: 16 readable marks and steps after the last ones.
struct ApplyCursor {
  struct Class {
    const std::uint32_t* marks;
    const std::uint32_t* marks_end;
    const void* steps;
    std::size_t step = 0, step_count = 0;
    std::uint32_t size = 0;    // elements of the class so far
    bool active = false;
    bool complement = false;   // marks are the elements that did not change
    bool overrun = false;      // more changes than steps
  } classes[kClasses];
};

struct Kernels {
  const char* name;

  // Index by log2 of the element's width. `count` elements, at most kChunkElements; floats.
  using Compare = void (*)(const std::byte* parent, const std::byte* now, std::size_t count, const ClassRule&,
                           CompareCursor&);
  Compare compare[4];
  using Apply = void (*)(std::byte* slab, std::size_t count, const ClassRule&, ApplyCursor&);
  Apply apply[4];

  // Index by groups of 16 lanes, less one. Backwards from `out`; returns the first word written. May write
  // up to 16 words below it.
  using RansEncode = std::uint16_t* (*)(const RansModel&, const std::uint8_t* symbols, std::size_t count,
                                        std::uint32_t* lanes, std::uint16_t* out);
  RansEncode rans_encode[2];
  // Forward from `words`; returns the next word, or null when they run out.
  using RansDecode = const std::byte* (*)(const std::uint32_t* table, std::uint8_t* symbols, std::size_t count,
                                          std::uint32_t* lanes, const std::byte* words, const std::byte* words_end);
  RansDecode rans_decode[2];

  // Gaps of `count` strictly rising marks as tokens and plain bits at `bits` from `at` on, which is moved. Returns how
  // many tokens. REQUIRES: room for all tokens and 64 more, and for the bits and 64 bytes more.
  std::size_t (*split_gaps)(const std::uint32_t* marks, std::size_t count, const GapCode&, std::uint8_t* tokens,
                            std::uint8_t* bits, std::uint64_t& at);
  // Back to marks; returns how many. REQUIRES: room for `count` and 16 more, readable bits and 64 bytes more, and no
  // mark of 2^25 or above.
  std::size_t (*join_gaps)(const std::uint8_t* tokens, std::size_t count, const GapCode&, const std::uint8_t* bits,
                           std::uint64_t& at, std::uint32_t* marks);

  // Index by log2 of the width. Plain bits: which steps are negative. Returns how many are not +1 or -1.
  using SplitSigns = std::size_t (*)(const void* steps, std::size_t count, std::uint8_t* bits, std::uint64_t& at);
  SplitSigns split_signs[4];
  // +1 and -1 from plain bits. REQUIRES: room for count + 64.
  using JoinSigns = void (*)(const std::uint8_t* bits, std::uint64_t& at, std::size_t count, void* steps);
  JoinSigns join_signs[4];

  // Index by log2 of the width. Tokens and, packed, the rest of each element, the lowest bits first; and back.
  // REQUIRES: 16 bytes of room behind `rest`. join_fields reads nothing behind `rest_bytes`.
  using SplitFields = void (*)(const std::byte* slab, std::size_t count, const FieldRule&, std::uint8_t* tokens,
                               std::uint8_t* rest);
  SplitFields split_fields[4];
  using JoinFields = void (*)(const std::uint8_t* tokens, const std::byte* rest, std::size_t rest_bytes,
                              std::size_t count, const FieldRule&, std::byte* slab);
  JoinFields join_fields[4];
};

enum class Simd : std::uint8_t { scalar, avx2, avx512 };

const Kernels& kernels();
// The best that this machine has.
Simd detected_simd();
// For tests and benches: everything from now on uses `simd`; false when the machine lacks it.
bool force_simd(Simd simd);

}  // namespace p2pw::codec
