// The reference: what every other instruction set must equal. Also does the last, shorter chunk of a slab for all.
#include "chunker/codec/bit_io.h"
#include "chunker/codec/kernels_tables.h"

namespace p2pw::codec {
namespace {

template <class T>
unsigned class_at(T bits, const ClassRule& rule) {
  return class_of(static_cast<unsigned>(bits >> rule.mantissa_bits) & rule.exponent_mask, rule.top);
}

template <class T>
void compare(const std::byte* parent, const std::byte* now, std::size_t count, const ClassRule& rule,
             CompareCursor& cursor) {
  for (std::size_t i = 0; i < count; ++i) {
    const T before = load_le<T>(parent + i * sizeof(T)), after = load_le<T>(now + i * sizeof(T));
    const unsigned c = class_at(before, rule);
    if (before != after) {
      const std::size_t at = cursor.count[c]++;
      cursor.ranks[c][at] = cursor.size[c];
      static_cast<T*>(cursor.steps[c])[at] = static_cast<T>(to_line(after) - to_line(before));
    }
    ++cursor.size[c];
  }
}

template <class T>
void apply(std::byte* slab, std::size_t count, const ClassRule& rule, ApplyCursor& cursor) {
  for (std::size_t i = 0; i < count; ++i) {
    const T bits = load_le<T>(slab + i * sizeof(T));
    ApplyCursor::Class& c = cursor.classes[class_at(bits, rule)];
    const std::uint32_t rank = c.size++;
    if (!c.active) continue;
    const bool marked = c.marks != c.marks_end && *c.marks == rank;
    c.marks += marked ? 1 : 0;
    if (marked == c.complement) continue;
    if (c.step == c.step_count) {
      c.overrun = true;
      continue;
    }
    const T step = static_cast<const T*>(c.steps)[c.step++];
    store_le(slab + i * sizeof(T), from_line(static_cast<T>(to_line(bits) + step)));
  }
}

template <std::size_t kGroups>
std::uint16_t* rans_encode(const RansModel& model, const std::uint8_t* symbols, std::size_t count, std::uint32_t* lanes,
                           std::uint16_t* out) {
  for (std::size_t i = count; i-- > 0;) rans_put(model, symbols[i], lanes[i % (kGroups * kLanes)], out);
  return out;
}

template <std::size_t kGroups>
const std::byte* rans_decode(const std::uint32_t* table, std::uint8_t* symbols, std::size_t count, std::uint32_t* lanes,
                             const std::byte* words, const std::byte* words_end) {
  for (std::size_t i = 0; i < count; ++i) {
    if (!rans_get(table, symbols[i], lanes[i % (kGroups * kLanes)], words, words_end)) return nullptr;
  }
  return words;
}

inline void put_bits(std::uint64_t value, unsigned width, std::uint8_t* bits, std::uint64_t& at) {
  std::uint8_t* byte = bits + at / 8;
  const unsigned shift = at % 8;
  const std::uint64_t low = *byte & ((1u << shift) - 1);
  store_le(byte, low | value << shift);
  at += width;
}
inline std::uint64_t get_bits(unsigned width, const std::uint8_t* bits, std::uint64_t& at) {
  const std::uint64_t word = load_le<std::uint64_t>(bits + at / 8) >> (at % 8);
  at += width;
  return word & ((std::uint64_t{1} << width) - 1);
}

std::size_t split_gaps(const std::uint32_t* marks, std::size_t count, const GapCode& code, std::uint8_t* tokens,
                       std::uint8_t* bits, std::uint64_t& at) {
  const std::uint32_t place_mask = (1u << code.place_bits) - 1;
  const std::uint8_t* first = tokens;
  std::uint32_t next = code.next;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t gap = marks[i] - next;
    next = marks[i] + 1;
    std::uint32_t cell = gap >> code.place_bits;
    for (; cell >= code.escape; cell -= code.escape) *tokens++ = code.escape;
    *tokens++ = static_cast<std::uint8_t>(cell);
    put_bits(gap & place_mask, code.place_bits, bits, at);
  }
  return static_cast<std::size_t>(tokens - first);
}

std::size_t join_gaps(const std::uint8_t* tokens, std::size_t count, const GapCode& code, const std::uint8_t* bits,
                      std::uint64_t& at, std::uint32_t* marks) {
  const std::uint32_t* first = marks;
  std::uint32_t next = code.next;
  for (std::size_t i = 0; i < count; ++i) {
    next += std::uint32_t{tokens[i]} << code.place_bits;
    if (tokens[i] == code.escape) continue;
    next += static_cast<std::uint32_t>(get_bits(code.place_bits, bits, at));
    *marks++ = next++;
  }
  return static_cast<std::size_t>(marks - first);
}

template <class T>
std::size_t split_signs(const void* from, std::size_t count, std::uint8_t* bits, std::uint64_t& at) {
  const T* steps = static_cast<const T*>(from);
  std::size_t large = 0;
  for (std::size_t i = 0; i < count; ++i) {
    put_bits(steps[i] >> (sizeof(T) * 8 - 1), 1, bits, at);
    large += steps[i] != 1 && steps[i] != static_cast<T>(~T{0}) ? 1 : 0;
  }
  return large;
}

template <class T>
void join_signs(const std::uint8_t* bits, std::uint64_t& at, std::size_t count, void* to) {
  T* steps = static_cast<T*>(to);
  for (std::size_t i = 0; i < count; ++i) {
    steps[i] = get_bits(1, bits, at) != 0 ? static_cast<T>(~T{0}) : T{1};
  }
}

// The bits of one value, reading nothing behind the end.
std::uint64_t peek_bits(const std::byte* from, std::size_t bytes, std::uint64_t at, unsigned width) {
  std::uint64_t value = 0;
  for (std::size_t b = 0; b < 8 && at / 8 + b < bytes; ++b) value |= std::uint64_t(from[at / 8 + b]) << (8 * b);
  return value >> (at % 8) & ((std::uint64_t{1} << width) - 1);
}

template <class T>
void split_fields(const std::byte* slab, std::size_t count, const FieldRule& rule, std::uint8_t* tokens,
                  std::uint8_t* rest) {
  const std::uint64_t low = (std::uint64_t{1} << rule.token_shift) - 1;
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const T bits = load_le<T>(slab + i * sizeof(T));
    tokens[i] = rule.token_of(bits);
    if (sizeof(T) > 1) {
      const std::uint64_t sign = bits >> (8 * sizeof(T) - 1);
      put_bits((bits & low) | sign << rule.token_shift, rule.token_shift + 1, rest, at);
    }
  }
}

template <class T>
void join_fields(const std::uint8_t* tokens, const std::byte* rest, std::size_t rest_bytes, std::size_t count,
                 const FieldRule& rule, std::byte* slab) {
  const std::uint64_t low = (std::uint64_t{1} << rule.token_shift) - 1;
  const unsigned width = rule.rest_bits();
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t bits = (std::uint64_t{tokens[i]} + rule.window) << rule.token_shift & ~rule.rest_mask;
    if (sizeof(T) > 1) {
      const std::uint64_t value = peek_bits(rest, rest_bytes, i * std::uint64_t{width}, width);
      bits |= (value & low) | value >> rule.token_shift << (8 * sizeof(T) - 1);
    }
    store_le(slab + i * sizeof(T), static_cast<T>(bits));
  }
}

}  // namespace

const Kernels kScalarKernels = {
    "scalar",
    {compare<std::uint8_t>, compare<std::uint16_t>, compare<std::uint32_t>, compare<std::uint64_t>},
    {apply<std::uint8_t>, apply<std::uint16_t>, apply<std::uint32_t>, apply<std::uint64_t>},
    {rans_encode<1>, rans_encode<2>},
    {rans_decode<1>, rans_decode<2>},
    split_gaps,
    join_gaps,
    {split_signs<std::uint8_t>, split_signs<std::uint16_t>, split_signs<std::uint32_t>, split_signs<std::uint64_t>},
    {join_signs<std::uint8_t>, join_signs<std::uint16_t>, join_signs<std::uint32_t>, join_signs<std::uint64_t>},
    {split_fields<std::uint8_t>, split_fields<std::uint16_t>, split_fields<std::uint32_t>, split_fields<std::uint64_t>},
    {join_fields<std::uint8_t>, join_fields<std::uint16_t>, join_fields<std::uint32_t>, join_fields<std::uint64_t>},
};

}  // namespace p2pw::codec
