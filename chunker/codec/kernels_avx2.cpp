// AVX2 with BMI2 (Haswell, Zen and later).
#include <algorithm>
#include <bit>
#include <cstring>

#include "chunker/codec/bit_io.h"
#include "chunker/codec/kernels_tables.h"

#if P2PW_X86

namespace p2pw::codec {
namespace {

// To pack the chosen ones of eight lanes to the high end, and to spread the low ones to the chosen lanes.
struct LaneOrders {
  alignas(32) std::uint32_t pack_high[256][8];
  alignas(32) std::uint32_t spread[256][8];
};
constexpr LaneOrders make_lane_orders() {
  LaneOrders orders{};
  for (unsigned mask = 0; mask < 256; ++mask) {
    unsigned count = 0;
    for (unsigned lane = 0; lane < 8; ++lane) {
      orders.spread[mask][lane] = count;
      count += mask >> lane & 1;
    }
    for (unsigned lane = 8, to = 8; lane-- > 0;) {
      if (mask >> lane & 1) orders.pack_high[mask][--to] = lane;
    }
  }
  return orders;
}
constexpr LaneOrders kLaneOrders = make_lane_orders();

}  // namespace
}  // namespace p2pw::codec

P2PW_SIMD_BEGIN_AVX2()
namespace p2pw::codec {
namespace {

#include "chunker/codec/kernels_x86.inc"

inline __m256i load256(const void* at) { return _mm256_loadu_si256(static_cast<const __m256i*>(at)); }
inline void store256(void* at, __m256i v) { _mm256_storeu_si256(static_cast<__m256i*>(at), v); }
inline std::uint32_t bits_of_bytes(__m256i v) { return static_cast<std::uint32_t>(_mm256_movemask_epi8(v)); }

// 32 elements: their exponents as bytes, and which differ from others.
template <class T>
struct Half;

template <>
struct Half<std::uint16_t> {
  __m256i a, b;
  static Half load(const std::byte* at) { return {load256(at), load256(at + 32)}; }
  static __m256i join(__m256i low, __m256i high) {  // of values below 256
    return _mm256_permute4x64_epi64(_mm256_packus_epi16(low, high), 0xD8);
  }
  __m256i exponents(__m128i shift, __m256i mask) const {
    const __m256i low = _mm256_and_si256(mask, _mm256_set1_epi16(0xFF));
    return join(_mm256_and_si256(_mm256_srl_epi16(a, shift), low), _mm256_and_si256(_mm256_srl_epi16(b, shift), low));
  }
  std::uint32_t same(const Half& o) const {
    const __m256i both = _mm256_packs_epi16(_mm256_cmpeq_epi16(a, o.a), _mm256_cmpeq_epi16(b, o.b));
    return bits_of_bytes(_mm256_permute4x64_epi64(both, 0xD8));
  }
};

template <>
struct Half<std::uint8_t> {
  __m256i a;
  static Half load(const std::byte* at) { return {load256(at)}; }
  __m256i exponents(__m128i shift, __m256i mask) const { return _mm256_and_si256(_mm256_srl_epi16(a, shift), mask); }
  std::uint32_t same(const Half& o) const { return bits_of_bytes(_mm256_cmpeq_epi8(a, o.a)); }
};

template <>
struct Half<std::uint32_t> {
  __m256i part[4];
  static Half load(const std::byte* at) {
    return {{load256(at), load256(at + 32), load256(at + 64), load256(at + 96)}};
  }
  static __m256i order(__m256i packed) {  // of what two rounds of packing leave
    return _mm256_permutevar8x32_epi32(packed, _mm256_set_epi32(7, 3, 6, 2, 5, 1, 4, 0));
  }
  __m256i exponents(__m128i shift, __m256i mask) const {
    const __m256i low = _mm256_and_si256(mask, _mm256_set1_epi32(0xFF));
    __m256i e[4];
    for (int k = 0; k < 4; ++k) e[k] = _mm256_and_si256(_mm256_srl_epi32(part[k], shift), low);
    return order(_mm256_packus_epi16(_mm256_packus_epi32(e[0], e[1]), _mm256_packus_epi32(e[2], e[3])));
  }
  std::uint32_t same(const Half& o) const {
    __m256i e[4];
    for (int k = 0; k < 4; ++k) e[k] = _mm256_cmpeq_epi32(part[k], o.part[k]);
    return bits_of_bytes(order(_mm256_packs_epi16(_mm256_packs_epi32(e[0], e[1]), _mm256_packs_epi32(e[2], e[3]))));
  }
};

template <class T>
struct ClassFinder {
  __m256i top, mask;
  __m128i shift;
  explicit ClassFinder(const ClassRule& rule)
      : top(_mm256_set1_epi8(static_cast<char>(rule.top))),
        mask(_mm256_set1_epi8(static_cast<char>(rule.exponent_mask))),
        shift(_mm_cvtsi32_si128(static_cast<int>(rule.mantissa_bits))) {}
  // The four bits of 32 class numbers, to one half of a block's words.
  void store(const Half<T>& elements, ChunkClasses& chunk, std::size_t block, std::size_t half) const {
    const __m256i classes = _mm256_min_epu8(_mm256_subs_epu8(top, elements.exponents(shift, mask)),
                                            _mm256_set1_epi8(kClasses - 1));
    const std::uint32_t bits[4] = {
        bits_of_bytes(_mm256_slli_epi16(classes, 7)), bits_of_bytes(_mm256_slli_epi16(classes, 6)),
        bits_of_bytes(_mm256_slli_epi16(classes, 5)), bits_of_bytes(_mm256_slli_epi16(classes, 4))};
    for (unsigned k = 0; k < 4; ++k) store_le(chunk.plane_half(k, block, half), bits[k]);
  }
};

template <class T>
std::size_t find_changes(const std::byte* parent, const std::byte* now, const ClassRule& rule, ChunkClasses& chunk,
                         std::uint16_t* places) {
  const ClassFinder<T> finder(rule);
  std::size_t changes = 0;
  for (std::size_t b = 0; b < kBlocks; ++b) {
    const std::byte* old_at = parent + b * 64 * sizeof(T);
    const std::byte* new_at = now + b * 64 * sizeof(T);
    prefetch_ahead<T>(old_at, kCompareNear, kCompareFar);
    prefetch_ahead<T>(new_at, kCompareNear, kCompareFar);
    std::uint64_t differ = 0;
    for (std::size_t half = 0; half < 2; ++half) {
      const Half<T> elements = Half<T>::load(old_at + half * 32 * sizeof(T));
      finder.store(elements, chunk, b, half);
      const std::uint32_t same = elements.same(Half<T>::load(new_at + half * 32 * sizeof(T)));
      differ |= std::uint64_t{~same} << (32 * half);
    }
    // Most blocks have few changes: four places are written whatever there is, so that no branch is mispredicted.
    const std::size_t found = static_cast<std::size_t>(_mm_popcnt_u64(differ));
    std::uint16_t* to = places + changes;
    changes += found;
    for (int k = 0; k < 4; ++k, differ &= differ - 1) {
      *to++ = static_cast<std::uint16_t>(b * 64 + _tzcnt_u64(differ));
    }
    for (; differ != 0; differ &= differ - 1) *to++ = static_cast<std::uint16_t>(b * 64 + _tzcnt_u64(differ));
  }
  return changes;
}

template <class T>
void store_classes(const std::byte* slab, const ClassRule& rule, ChunkClasses& chunk) {
  const ClassFinder<T> finder(rule);
  for (std::size_t b = 0; b < kBlocks; ++b) {
    const std::byte* at = slab + b * 64 * sizeof(T);
    prefetch_ahead<T>(at, kApplyNear, kApplyFar);
    for (std::size_t half = 0; half < 2; ++half) {
      finder.store(Half<T>::load(at + half * 32 * sizeof(T)), chunk, b, half);
    }
  }
}

inline void find_classes(ChunkClasses& chunk) {
  const __m256i ones = _mm256_set1_epi64x(-1);
  for (std::size_t b = 0; b < kBlocks; b += 4) {
    __m256i p[4];
    for (unsigned k = 0; k < 4; ++k) p[k] = load256(chunk.plane(k) + b);
    const __m256i lows[4] = {_mm256_andnot_si256(_mm256_or_si256(p[1], p[0]), ones), _mm256_andnot_si256(p[1], p[0]),
                             _mm256_andnot_si256(p[0], p[1]), _mm256_and_si256(p[1], p[0])};
    const __m256i highs[4] = {_mm256_andnot_si256(_mm256_or_si256(p[3], p[2]), ones), _mm256_andnot_si256(p[3], p[2]),
                              _mm256_andnot_si256(p[2], p[3]), _mm256_and_si256(p[3], p[2])};
    for (unsigned c = 0; c < kClasses; ++c) {
      store256(chunk.masks[c] + b, _mm256_and_si256(lows[c % 4], highs[c / 4]));
    }
  }
  // Four classes at a time: their sums do not wait for each other.
  for (unsigned c = 0; c < kClasses; c += 4) {
    std::uint32_t sum[4] = {};
    for (std::size_t b = 0; b < kBlocks; ++b) {
      for (unsigned k = 0; k < 4; ++k) {
        chunk.before[c + k][b] = static_cast<std::uint16_t>(sum[k]);
        sum[k] += static_cast<std::uint32_t>(_mm_popcnt_u64(chunk.masks[c + k][b]));
      }
    }
    for (unsigned k = 0; k < 4; ++k) chunk.total[c + k] = static_cast<std::uint16_t>(sum[k]);
  }
}

inline std::size_t block_of_rank(const std::uint16_t* sums, std::uint32_t rank) {
  const __m256i wanted = _mm256_set1_epi16(static_cast<short>(rank));
  const __m256i above = _mm256_packs_epi16(_mm256_cmpgt_epi16(load256(sums), wanted),
                                           _mm256_cmpgt_epi16(load256(sums + 16), wanted));
  return static_cast<std::size_t>(31 - _mm_popcnt_u32(bits_of_bytes(above)));
}

inline std::size_t copy_ranks(const std::uint32_t* from, std::uint32_t size, std::uint32_t end, std::uint16_t* to) {
  const __m256i low = load256(from), high = load256(from + 8);
  const __m256i less = _mm256_set1_epi32(static_cast<int>(size)), limit = _mm256_set1_epi32(static_cast<int>(end));
  const __m256i mask = _mm256_set1_epi32(0xFFFF);
  const __m256i ranks = _mm256_packus_epi32(_mm256_and_si256(_mm256_sub_epi32(low, less), mask),
                                            _mm256_and_si256(_mm256_sub_epi32(high, less), mask));
  store256(to, _mm256_permute4x64_epi64(ranks, 0xD8));
  const int inside = _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(limit, low))) |
                     _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(limit, high))) << 8;
  return _tzcnt_u32(~static_cast<std::uint32_t>(inside));
}

inline __m128i low_halves(__m256i v) {  // the low 16 bits of each lane
  const __m256i low = _mm256_and_si256(v, _mm256_set1_epi32(0xFFFF));
  return _mm256_castsi256_si128(_mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0xD8));
}

// One step of eight lanes of the encoder.
inline __m256i encode8(const RansModel& model, __m256i x, __m256i symbols, __m256i active, std::uint16_t*& out) {
  const __m256i packed = _mm256_mask_i32gather_epi32(_mm256_set1_epi32(1), reinterpret_cast<const int*>(model.share),
                                                     symbols, active, 4);
  const __m256i f = _mm256_and_si256(packed, _mm256_set1_epi32(0xFFFF));
  // Both below 2^12: signed comparison will do.
  const __m256i full = _mm256_andnot_si256(_mm256_cmpgt_epi32(f, _mm256_srli_epi32(x, 20)), active);
  const unsigned mask = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(full)));
  const unsigned count = static_cast<unsigned>(_mm_popcnt_u32(mask));
  // The words end where the last ones begin: they are packed to the high end, and what lies below is overwritten later.
  const __m256i words = _mm256_permutevar8x32_epi32(x, load256(kLaneOrders.pack_high[mask]));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out - 8), low_halves(words));
  out -= count;
  const __m256i y = _mm256_blendv_epi8(x, _mm256_srli_epi32(x, 16), full);
  // y / f is below 2^20, so a quotient of floats that is raised by 2^-21 is the true one or one more.
  const __m256 high = _mm256_cvtepi32_ps(_mm256_srli_epi32(y, 16));
  const __m256 low = _mm256_cvtepi32_ps(_mm256_and_si256(y, _mm256_set1_epi32(0xFFFF)));
  const __m256 value = _mm256_add_ps(_mm256_mul_ps(high, _mm256_set1_ps(65536.0f)), low);
  const __m256 raised = _mm256_mul_ps(value, _mm256_set1_ps(1 + 0x1p-21f));
  const __m256i q = _mm256_cvttps_epi32(_mm256_div_ps(raised, _mm256_cvtepi32_ps(f)));
  const __m256i r = _mm256_sub_epi32(y, _mm256_mullo_epi32(q, f));
  const __m256i next = _mm256_add_epi32(_mm256_add_epi32(_mm256_slli_epi32(q, kProbabilityBits), r),
                                        _mm256_srli_epi32(packed, 16));
  const __m256i one_less = _mm256_sub_epi32(_mm256_set1_epi32(kProbabilityScale), f);
  return _mm256_blendv_epi8(x, _mm256_sub_epi32(next, _mm256_and_si256(_mm256_srai_epi32(r, 31), one_less)), active);
}

inline __m256i widen8(const std::uint8_t* from) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
}

template <std::size_t kGroups>
std::uint16_t* rans_encode(const RansModel& model, const std::uint8_t* symbols, std::size_t count, std::uint32_t* lanes,
                           std::uint16_t* out) {
  constexpr std::size_t kEights = 2 * kGroups, kStep = 8 * kEights;
  __m256i x[kEights];
  for (std::size_t g = 0; g < kEights; ++g) x[g] = load256(lanes + 8 * g);
  const std::size_t whole = count / kStep * kStep;
  if (whole != count) {
    std::uint8_t last[kStep] = {};
    std::memcpy(last, symbols + whole, count - whole);
    const __m256i lane = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    for (std::size_t g = kEights; g-- > 0;) {
      const int left = static_cast<int>(count - whole) - static_cast<int>(8 * g);
      x[g] = encode8(model, x[g], widen8(last + 8 * g), _mm256_cmpgt_epi32(_mm256_set1_epi32(left), lane), out);
    }
  }
  for (std::size_t at = whole; at != 0;) {
    at -= kStep;
    for (std::size_t g = kEights; g-- > 0;) {
      x[g] = encode8(model, x[g], widen8(symbols + at + 8 * g), _mm256_set1_epi32(-1), out);
    }
  }
  for (std::size_t g = 0; g < kEights; ++g) store256(lanes + 8 * g, x[g]);
  return out;
}

template <std::size_t kGroups>
const std::byte* rans_decode(const std::uint32_t* table, std::uint8_t* symbols, std::size_t count, std::uint32_t* lanes,
                             const std::byte* words, const std::byte* words_end) {
  constexpr std::size_t kEights = 2 * kGroups, kStep = 8 * kEights;
  __m256i x[kEights];
  for (std::size_t g = 0; g < kEights; ++g) x[g] = load256(lanes + 8 * g);
  const __m256i low = _mm256_set1_epi32(kProbabilityScale - 1), zero = _mm256_setzero_si256();
  const __m256i low_byte = _mm256_set1_epi32(0xFF);
  for (; count >= kStep && words_end - words >= static_cast<std::ptrdiff_t>(2 * kStep); count -= kStep, symbols += kStep) {
    __m256i entry[kEights];
    for (std::size_t g = 0; g < kEights; ++g) {
      entry[g] = _mm256_i32gather_epi32(reinterpret_cast<const int*>(table), _mm256_and_si256(x[g], low), 4);
      const __m256i f = _mm256_and_si256(_mm256_srli_epi32(entry[g], 8), low);
      x[g] = _mm256_add_epi32(_mm256_mullo_epi32(f, _mm256_srli_epi32(x[g], kProbabilityBits)),
                              _mm256_srli_epi32(entry[g], 20));
    }
    for (std::size_t g = 0; g < kEights; ++g) {
      const __m256i empty = _mm256_cmpeq_epi32(_mm256_srli_epi32(x[g], 16), zero);
      const unsigned mask = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(empty)));
      const __m256i next = _mm256_permutevar8x32_epi32(
          _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(words))), load256(kLaneOrders.spread[mask]));
      x[g] = _mm256_blendv_epi8(x[g], _mm256_or_si256(_mm256_slli_epi32(x[g], 16), next), empty);
      words += 2 * _mm_popcnt_u32(mask);
    }
    for (std::size_t g = 0; g < kEights; g += 2) {
      const __m256i both = _mm256_permute4x64_epi64(
          _mm256_packus_epi32(_mm256_and_si256(entry[g], low_byte), _mm256_and_si256(entry[g + 1], low_byte)), 0xD8);
      const __m128i packed = _mm_packus_epi16(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(symbols + 8 * g), packed);
    }
  }
  for (std::size_t g = 0; g < kEights; ++g) store256(lanes + 8 * g, x[g]);
  return kScalarKernels.rans_decode[kGroups - 1](table, symbols, count, lanes, words, words_end);
}

inline __m256i running_sum(__m256i v) {
  v = _mm256_add_epi32(v, _mm256_slli_si256(v, 4));
  v = _mm256_add_epi32(v, _mm256_slli_si256(v, 8));
  const __m256i low = _mm256_permute2x128_si256(v, v, 0x08);  // zero, low half
  return _mm256_add_epi32(v, _mm256_shuffle_epi32(low, 0xFF));
}

constexpr unsigned kPackedPlaceBits = 14;  // four places in the 56 bits that one access reaches

std::size_t join_gaps(const std::uint8_t* tokens, std::size_t count, const GapCode& code, const std::uint8_t* bits,
                      std::uint64_t& at, std::uint32_t* marks) {
  const std::uint32_t* first = marks;
  const unsigned k = code.place_bits;
  GapCode rest = code;
  if (k <= kPackedPlaceBits) {
    const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(k));
    const std::uint64_t spread = 0x0001'0001'0001'0001ull * ((1u << k) - 1);
    for (; count >= 8; count -= 8, tokens += 8) {
      const __m128i group = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(tokens));
      const __m128i escaped = _mm_cmpeq_epi8(group, _mm_set1_epi8(static_cast<char>(code.escape)));
      if ((_mm_movemask_epi8(escaped) & 0xFF) != 0) {
        const std::size_t found = kScalarKernels.join_gaps(tokens, 8, rest, bits, at, marks);
        for (std::size_t i = 0; i < 8; ++i) rest.next += std::uint32_t{tokens[i]} << k;
        if (found != 0) {
          // Escapes after the last mark count on; all before it are in the mark.
          std::size_t trailing = 8;
          std::uint32_t open = 0;
          for (; tokens[trailing - 1] == code.escape; --trailing) open += std::uint32_t{code.escape} << k;
          rest.next = marks[found - 1] + 1 + open;
        }
        marks += found;
        continue;
      }
      const std::uint64_t low = load_le<std::uint64_t>(bits + at / 8) >> (at % 8);
      at += 4 * k;
      const std::uint64_t high = load_le<std::uint64_t>(bits + at / 8) >> (at % 8);
      at += 4 * k;
      const __m256i places = _mm256_cvtepu16_epi32(_mm_set_epi64x(static_cast<long long>(_pdep_u64(high, spread)),
                                                                  static_cast<long long>(_pdep_u64(low, spread))));
      const __m256i cells = _mm256_sll_epi32(_mm256_cvtepu8_epi32(group), shift);
      const __m256i sums = running_sum(_mm256_add_epi32(_mm256_add_epi32(cells, places), _mm256_set1_epi32(1)));
      store256(marks, _mm256_add_epi32(sums, _mm256_set1_epi32(static_cast<int>(rest.next) - 1)));
      marks += 8;
      rest.next = marks[-1] + 1;
    }
  }
  return static_cast<std::size_t>(marks - first) + kScalarKernels.join_gaps(tokens, count, rest, bits, at, marks);
}

std::size_t split_gaps(const std::uint32_t* marks, std::size_t count, const GapCode& code, std::uint8_t* tokens,
                       std::uint8_t* bits, std::uint64_t& at) {
  const std::uint8_t* first = tokens;
  const unsigned k = code.place_bits;
  GapCode rest = code;
  std::size_t i = 0;
  if (k <= kPackedPlaceBits && count >= 16) {
    const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(k));
    const __m256i place_mask = _mm256_set1_epi32((1 << k) - 1), last = _mm256_set1_epi32(code.escape - 1);
    const std::uint64_t pick = 0x0001'0001'0001'0001ull * ((1u << k) - 1);
    // The first one has no mark before it.
    tokens += kScalarKernels.split_gaps(marks, 1, rest, tokens, bits, at);
    for (i = 1; i + 8 <= count; i += 8) {
      const __m256i gaps = _mm256_sub_epi32(_mm256_sub_epi32(load256(marks + i), load256(marks + i - 1)),
                                            _mm256_set1_epi32(1));
      const __m256i cells = _mm256_srl_epi32(gaps, shift);
      if (_mm256_movemask_epi8(_mm256_cmpgt_epi32(cells, last)) != 0) {
        rest.next = marks[i - 1] + 1;
        tokens += kScalarKernels.split_gaps(marks + i, 8, rest, tokens, bits, at);
        continue;
      }
      const __m128i halves = low_halves(cells);
      _mm_storel_epi64(reinterpret_cast<__m128i*>(tokens), _mm_packus_epi16(halves, halves));
      tokens += 8;
      if (k != 0) {
        const __m128i places = low_halves(_mm256_and_si256(gaps, place_mask));
        put_bits(_pext_u64(static_cast<std::uint64_t>(_mm_cvtsi128_si64(places)), pick), 4 * k, bits, at);
        put_bits(_pext_u64(static_cast<std::uint64_t>(_mm_extract_epi64(places, 1)), pick), 4 * k, bits, at);
      }
    }
    rest.next = marks[i - 1] + 1;
  }
  return static_cast<std::size_t>(tokens - first) +
         kScalarKernels.split_gaps(marks + i, count - i, rest, tokens, bits, at);
}

inline __m256i in_order(__m256i packed) { return _mm256_permute4x64_epi64(packed, 0xD8); }

std::size_t split_signs16(const void* from, std::size_t count, std::uint8_t* bits, std::uint64_t& at) {
  const std::uint16_t* steps = static_cast<const std::uint16_t*>(from);
  const __m256i one = _mm256_set1_epi16(1);
  std::size_t large = 0;
  for (std::size_t i = 0; i < count; i += 32) {
    const std::size_t here = std::min<std::size_t>(count - i, 32);
    std::uint16_t last[32];
    const std::uint16_t* group = steps + i;
    if (here < 32) {
      std::fill(last, last + 32, std::uint16_t{1});
      std::memcpy(last, group, here * 2);
      group = last;
    }
    const __m256i a = load256(group), b = load256(group + 16);
    put_bits(bits_of_bytes(in_order(_mm256_packs_epi16(a, b))), static_cast<unsigned>(here), bits, at);
    const std::uint32_t ones = bits_of_bytes(in_order(_mm256_packs_epi16(
        _mm256_cmpeq_epi16(_mm256_abs_epi16(a), one), _mm256_cmpeq_epi16(_mm256_abs_epi16(b), one))));
    large += static_cast<std::size_t>(_mm_popcnt_u32(~ones));
  }
  return large;
}

void join_signs16(const std::uint8_t* bits, std::uint64_t& at, std::size_t count, void* to) {
  std::uint16_t* steps = static_cast<std::uint16_t*>(to);
  const __m256i each = _mm256_set_epi16(-32768, 0x4000, 0x2000, 0x1000, 0x800, 0x400, 0x200, 0x100, 0x80, 0x40, 0x20,
                                        0x10, 8, 4, 2, 1);
  for (std::size_t i = 0; i < count; i += 16) {
    const std::uint32_t word = load_le<std::uint32_t>(bits + (at + i) / 8) >> ((at + i) % 8);
    const __m256i chosen = _mm256_and_si256(_mm256_set1_epi16(static_cast<short>(word)), each);
    store256(steps + i, _mm256_or_si256(_mm256_cmpeq_epi16(chosen, each), _mm256_set1_epi16(1)));
  }
  at += count;
}

}  // namespace

const Kernels kAvx2Kernels = {
    "avx2",
    {compare<std::uint8_t>, compare<std::uint16_t>, compare<std::uint32_t>, compare_wide},
    {apply<std::uint8_t>, apply<std::uint16_t>, apply<std::uint32_t>, apply_wide},
    {rans_encode<1>, rans_encode<2>},
    {rans_decode<1>, rans_decode<2>},
    split_gaps,
    join_gaps,
    {split_signs<0>, split_signs16, split_signs<2>, split_signs<3>},
    {join_signs<0>, join_signs16, join_signs<2>, join_signs<3>},
    {split_fields<std::uint8_t>, split_fields<std::uint16_t>, split_fields<std::uint32_t>, split_fields<std::uint64_t>},
    {join_fields<std::uint8_t>, join_fields<std::uint16_t>, join_fields<std::uint32_t>, join_fields<std::uint64_t>},
};

}  // namespace p2pw::codec
P2PW_SIMD_END()

#endif
