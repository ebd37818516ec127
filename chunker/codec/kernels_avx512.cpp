// AVX-512 with VBMI2, BITALG and VPOPCNTDQ (Ice Lake, Zen 4 and later).
#include <algorithm>
#include <bit>
#include <cstring>

#include "chunker/codec/bit_io.h"
#include "chunker/codec/kernels_tables.h"

#if P2PW_X86

P2PW_SIMD_BEGIN_AVX512()
namespace p2pw::codec {
namespace {

#include "chunker/codec/kernels_x86.inc"

// 64 elements. exponents(): their exponent bytes, those of each eight in reverse order (see ClassFinder).
template <class T>
struct Block;

template <>
struct Block<std::uint16_t> {
  __m512i low, high;
  static Block load(const std::byte* at) { return {_mm512_loadu_si512(at), _mm512_loadu_si512(at + 64)}; }
  static __m512i order() {
    alignas(64) std::uint8_t index[64];
    for (unsigned i = 0; i < 64; ++i) index[i] = static_cast<std::uint8_t>(2 * (i ^ 7));
    return _mm512_load_si512(index);
  }
  __m512i exponents(const ClassRule& rule, __m512i order) const {
    const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(rule.mantissa_bits));
    return _mm512_permutex2var_epi8(_mm512_srl_epi16(low, shift), order, _mm512_srl_epi16(high, shift));
  }
  std::uint64_t differ(const Block& other) const {
    return _cvtmask64_u64(_mm512_kunpackd(_mm512_cmpneq_epi16_mask(high, other.high),
                                          _mm512_cmpneq_epi16_mask(low, other.low)));
  }
};

inline __m512i reverse_eights(__m512i bytes) {
  return _mm512_shuffle_epi8(bytes, _mm512_set_epi64(0x08090A0B0C0D0E0F, 0x0001020304050607, 0x08090A0B0C0D0E0F,
                                                     0x0001020304050607, 0x08090A0B0C0D0E0F, 0x0001020304050607,
                                                     0x08090A0B0C0D0E0F, 0x0001020304050607));
}

template <>
struct Block<std::uint8_t> {
  __m512i all;
  static Block load(const std::byte* at) { return {_mm512_loadu_si512(at)}; }
  static __m512i order() { return _mm512_setzero_si512(); }
  __m512i exponents(const ClassRule& rule, __m512i) const {
    const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(rule.mantissa_bits));
    return reverse_eights(_mm512_srl_epi16(all, shift));
  }
  std::uint64_t differ(const Block& other) const { return _mm512_cmpneq_epi8_mask(all, other.all); }
};

template <>
struct Block<std::uint32_t> {
  __m512i part[4];
  static Block load(const std::byte* at) {
    Block block;
    for (int k = 0; k < 4; ++k) block.part[k] = _mm512_loadu_si512(at + 64 * k);
    return block;
  }
  static __m512i order() {
    alignas(64) std::uint8_t index[64];
    for (unsigned i = 0; i < 64; ++i) index[i] = static_cast<std::uint8_t>(4 * (i % 32));
    return _mm512_load_si512(index);
  }
  __m512i exponents(const ClassRule& rule, __m512i order) const {
    const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(rule.mantissa_bits));
    __m512i s[4];
    for (int k = 0; k < 4; ++k) s[k] = _mm512_srl_epi32(part[k], shift);
    return reverse_eights(_mm512_mask_blend_epi64(0xF0, _mm512_permutex2var_epi8(s[0], order, s[1]),
                                                  _mm512_permutex2var_epi8(s[2], order, s[3])));
  }
  std::uint64_t differ(const Block& other) const {
    std::uint64_t mask = 0;
    for (int k = 0; k < 4; ++k) {
      mask |= std::uint64_t{_mm512_cmpneq_epi32_mask(part[k], other.part[k])} << (16 * k);
    }
    return mask;
  }
};

// Classes of 64 elements as bits, turned from 8 by 8 squares into words. The multiplication in GF(2) with the bytes as
// matrix and the unit matrix as operand transposes each square, and turns its rows around.
template <class T>
struct ClassFinder {
  const ClassRule& rule;
  __m512i top, exponent_mask, order, transpose;

  explicit ClassFinder(const ClassRule& class_rule)
      : rule(class_rule),
        top(_mm512_set1_epi8(static_cast<char>(class_rule.top))),
        exponent_mask(_mm512_set1_epi8(static_cast<char>(class_rule.exponent_mask))),
        order(Block<T>::order()) {
    alignas(64) std::uint8_t index[64];
    for (unsigned i = 0; i < 64; ++i) index[i] = static_cast<std::uint8_t>(i % 8 * 8 + i / 8);
    transpose = _mm512_load_si512(index);
  }
  void store(const Block<T>& elements, ChunkClasses& chunk, std::size_t block) const {
    const __m512i exponents = _mm512_and_si512(elements.exponents(rule, order), exponent_mask);
    const __m512i classes = _mm512_min_epu8(_mm512_subs_epu8(top, exponents), _mm512_set1_epi8(kClasses - 1));
    const __m512i unit = _mm512_set1_epi64(static_cast<long long>(0x8040201008040201ull));
    const __m512i squares = _mm512_gf2p8affine_epi64_epi8(unit, classes, 0);
    _mm256_store_si256(reinterpret_cast<__m256i*>(chunk.planes + 4 * block),
                       _mm512_castsi512_si256(_mm512_permutexvar_epi8(transpose, squares)));
  }
};

// The planes of eight blocks, one vector each.
inline void load_planes(const ChunkClasses& chunk, std::size_t block, __m512i planes[4]) {
  const __m512i low = _mm512_set_epi64(13, 9, 5, 1, 12, 8, 4, 0), high = _mm512_set_epi64(15, 11, 7, 3, 14, 10, 6, 2);
  __m512i z[4];
  for (std::size_t k = 0; k < 4; ++k) z[k] = _mm512_load_si512(chunk.planes + 4 * (block + 2 * k));
  const __m512i low01 = _mm512_permutex2var_epi64(z[0], low, z[1]), low23 = _mm512_permutex2var_epi64(z[2], low, z[3]);
  const __m512i high01 = _mm512_permutex2var_epi64(z[0], high, z[1]);
  const __m512i high23 = _mm512_permutex2var_epi64(z[2], high, z[3]);
  planes[0] = _mm512_shuffle_i64x2(low01, low23, 0x44);
  planes[1] = _mm512_shuffle_i64x2(low01, low23, 0xEE);
  planes[2] = _mm512_shuffle_i64x2(high01, high23, 0x44);
  planes[3] = _mm512_shuffle_i64x2(high01, high23, 0xEE);
}

// Masks, counts and sums of every class from the planes.
inline void find_classes(ChunkClasses& chunk) {
  static_assert(kBlocks == 32, "one vector of 16-bit sums for each class");
  const __m512i zero = _mm512_setzero_si512(), last = _mm512_set1_epi64(7);
  __m512i sums[4][4], carry[4] = {zero, zero, zero, zero};  // four classes share a word, 16 bits each
  for (std::size_t eight = 0; eight < 4; ++eight) {
    __m512i p[4];
    load_planes(chunk, 8 * eight, p);
    const __m512i lows[4] = {_mm512_ternarylogic_epi64(p[1], p[0], p[0], 0x03), _mm512_andnot_si512(p[1], p[0]),
                             _mm512_andnot_si512(p[0], p[1]), _mm512_and_si512(p[1], p[0])};
    const __m512i highs[4] = {_mm512_ternarylogic_epi64(p[3], p[2], p[2], 0x03), _mm512_andnot_si512(p[3], p[2]),
                              _mm512_andnot_si512(p[2], p[3]), _mm512_and_si512(p[3], p[2])};
    for (unsigned four = 0; four < kClasses / 4; ++four) {
      __m512i counts[4];
      for (unsigned c = 0; c < 4; ++c) {
        const __m512i mask = _mm512_and_si512(lows[c], highs[four]);
        _mm512_store_si512(chunk.masks[4 * four + c] + 8 * eight, mask);
        counts[c] = _mm512_popcnt_epi64(mask);
      }
      const __m512i packed =
          _mm512_or_si512(_mm512_or_si512(counts[0], _mm512_slli_epi64(counts[1], 16)),
                          _mm512_or_si512(_mm512_slli_epi64(counts[2], 32), _mm512_slli_epi64(counts[3], 48)));
      __m512i s = _mm512_add_epi16(packed, _mm512_alignr_epi64(packed, zero, 7));
      s = _mm512_add_epi16(s, _mm512_alignr_epi64(s, zero, 6));
      s = _mm512_add_epi16(s, _mm512_alignr_epi64(s, zero, 4));
      sums[four][eight] = _mm512_add_epi16(_mm512_sub_epi16(s, packed), carry[four]);
      carry[four] = _mm512_add_epi16(carry[four], _mm512_permutexvar_epi64(last, s));
    }
  }
  // From words of four classes to one vector for each class.
  alignas(64) static constexpr std::uint16_t kEven[32] = {0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60,
                                                          1, 5, 9, 13, 17, 21, 25, 29, 33, 37, 41, 45, 49, 53, 57, 61};
  const __m512i first_two = _mm512_load_si512(kEven), last_two = _mm512_add_epi16(first_two, _mm512_set1_epi16(2));
  for (unsigned four = 0; four < kClasses / 4; ++four) {
    for (unsigned pair = 0; pair < 2; ++pair) {
      const __m512i order = pair == 0 ? first_two : last_two;
      const __m512i low = _mm512_permutex2var_epi16(sums[four][0], order, sums[four][1]);
      const __m512i high = _mm512_permutex2var_epi16(sums[four][2], order, sums[four][3]);
      _mm512_store_si512(chunk.before[4 * four + 2 * pair], _mm512_shuffle_i64x2(low, high, 0x44));
      _mm512_store_si512(chunk.before[4 * four + 2 * pair + 1], _mm512_shuffle_i64x2(low, high, 0xEE));
    }
    _mm_storel_epi64(reinterpret_cast<__m128i*>(chunk.total + 4 * four), _mm512_castsi512_si128(carry[four]));
  }
}

template <class T>
std::size_t find_changes(const std::byte* parent, const std::byte* now, const ClassRule& rule, ChunkClasses& chunk,
                         std::uint16_t* places) {
  std::uint8_t changed[kChunkElements + 64], block_of[kChunkElements + 64];
  std::size_t changes = 0;
  const ClassFinder<T> finder(rule);
  const __m512i index = _mm512_set_epi64(0x3F3E3D3C3B3A3938, 0x3736353433323130, 0x2F2E2D2C2B2A2928,
                                         0x2726252423222120, 0x1F1E1D1C1B1A1918, 0x1716151413121110,
                                         0x0F0E0D0C0B0A0908, 0x0706050403020100);
  for (std::size_t b = 0; b < kBlocks; ++b) {
    const std::byte* old_at = parent + b * 64 * sizeof(T);
    const std::byte* new_at = now + b * 64 * sizeof(T);
    prefetch_ahead<T>(old_at, kCompareNear, kCompareFar);
    prefetch_ahead<T>(new_at, kCompareNear, kCompareFar);
    const Block<T> old_block = Block<T>::load(old_at);
    finder.store(old_block, chunk, b);
    const std::uint64_t differ = old_block.differ(Block<T>::load(new_at));
    const __m512i bits = _mm512_maskz_compress_epi8(differ, index);
    const __m512i block = _mm512_set1_epi8(static_cast<char>(b));
    const std::size_t found = static_cast<std::size_t>(_mm_popcnt_u64(differ));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(changed + changes), _mm512_castsi512_si128(bits));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(block_of + changes), _mm512_castsi512_si128(block));
    if (found > 16) [[unlikely]] {
      _mm512_storeu_si512(changed + changes, bits);
      _mm512_storeu_si512(block_of + changes, block);
    }
    changes += found;
  }
  for (std::size_t i = 0; i < changes; i += 32) {
    const __m512i bits = _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(changed + i)));
    const __m512i blocks = _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(block_of + i)));
    _mm512_storeu_si512(places + i, _mm512_or_si512(_mm512_slli_epi16(blocks, 6), bits));
  }
  return changes;
}

template <class T>
void store_classes(const std::byte* slab, const ClassRule& rule, ChunkClasses& chunk) {
  const ClassFinder<T> finder(rule);
  for (std::size_t b = 0; b < kBlocks; ++b) {
    const std::byte* at = slab + b * 64 * sizeof(T);
    prefetch_ahead<T>(at, kApplyNear, kApplyFar);
    finder.store(Block<T>::load(at), chunk, b);
  }
}

inline std::size_t block_of_rank(const std::uint16_t* sums, std::uint32_t rank) {
  const std::uint32_t blocks =
      _mm512_cmple_epu16_mask(_mm512_load_si512(sums), _mm512_set1_epi16(static_cast<short>(rank)));
  return static_cast<std::size_t>(31 - _lzcnt_u32(blocks));
}

inline std::size_t copy_ranks(const std::uint32_t* from, std::uint32_t size, std::uint32_t end, std::uint16_t* to) {
  const __m512i marks = _mm512_loadu_si512(from);
  const __m512i ranks = _mm512_sub_epi32(marks, _mm512_set1_epi32(static_cast<int>(size)));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16(ranks));
  return _tzcnt_u32(~std::uint32_t{_mm512_cmplt_epu32_mask(marks, _mm512_set1_epi32(static_cast<int>(end)))});
}

// One step of 16 lanes of the encoder.
inline __m512i encode16(const RansModel& model, __m512i x, __m512i symbols, __mmask16 active, std::uint16_t*& out) {
  const __m512i packed = _mm512_mask_i32gather_epi32(_mm512_set1_epi32(1), active, symbols, model.share, 4);
  const __m512i f = _mm512_and_si512(packed, _mm512_set1_epi32(0xFFFF));
  const __mmask16 full = _mm512_mask_cmpge_epu32_mask(active, _mm512_srli_epi32(x, 20), f);
  const unsigned words = static_cast<unsigned>(_mm_popcnt_u32(full));
  // The words end where the last ones begin: they are moved to the high end, and what lies below is overwritten later.
  const __m512i packed_words = _mm512_maskz_expand_epi32(static_cast<__mmask16>(0xFFFF'0000u >> words),
                                                         _mm512_maskz_compress_epi32(full, x));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out - 16), _mm512_cvtepi32_epi16(packed_words));
  out -= words;
  const __m512i y = _mm512_mask_srli_epi32(x, full, x, 16);
  // y / f is below 2^20, so a quotient of floats that is raised by 2^-21 is the true one or one more.
  const __m512 raised = _mm512_mul_ps(_mm512_cvtepu32_ps(y), _mm512_set1_ps(1 + 0x1p-21f));
  const __m512i q = _mm512_cvttps_epi32(_mm512_div_ps(raised, _mm512_cvtepi32_ps(f)));
  const __m512i r = _mm512_sub_epi32(y, _mm512_mullo_epi32(q, f));
  const __m512i next = _mm512_add_epi32(_mm512_add_epi32(_mm512_slli_epi32(q, kProbabilityBits), r),
                                        _mm512_srli_epi32(packed, 16));
  const __m512i one_less = _mm512_sub_epi32(_mm512_set1_epi32(kProbabilityScale), f);
  return _mm512_mask_sub_epi32(_mm512_mask_mov_epi32(x, active, next),
                               static_cast<__mmask16>(_mm512_movepi32_mask(r) & active), next, one_less);
}

template <std::size_t kGroups>
std::uint16_t* rans_encode(const RansModel& model, const std::uint8_t* symbols, std::size_t count, std::uint32_t* lanes,
                           std::uint16_t* out) {
  constexpr std::size_t kStep = 16 * kGroups;
  __m512i x[kGroups];
  for (std::size_t g = 0; g < kGroups; ++g) x[g] = _mm512_loadu_si512(lanes + 16 * g);
  const std::size_t whole = count / kStep * kStep;
  for (std::size_t g = kGroups; g-- > 0;) {
    const std::size_t at = whole + 16 * g;
    if (at >= count) continue;
    const std::size_t left = count - at;
    const __mmask16 active = static_cast<__mmask16>(_bzhi_u32(0xFFFF, static_cast<unsigned>(left)));
    const __m512i s = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(active, symbols + at));
    x[g] = encode16(model, x[g], s, active, out);
  }
  for (std::size_t at = whole; at != 0;) {
    at -= kStep;
    for (std::size_t g = kGroups; g-- > 0;) {
      const __m512i s = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(symbols + at + 16 * g)));
      x[g] = encode16(model, x[g], s, 0xFFFF, out);
    }
  }
  for (std::size_t g = 0; g < kGroups; ++g) _mm512_storeu_si512(lanes + 16 * g, x[g]);
  return out;
}

template <std::size_t kGroups>
const std::byte* rans_decode(const std::uint32_t* table, std::uint8_t* symbols, std::size_t count, std::uint32_t* lanes,
                             const std::byte* words, const std::byte* words_end) {
  constexpr std::size_t kStep = 16 * kGroups;
  __m512i x[kGroups];
  for (std::size_t g = 0; g < kGroups; ++g) x[g] = _mm512_loadu_si512(lanes + 16 * g);
  const __m512i low = _mm512_set1_epi32(kProbabilityScale - 1);
  for (; count >= kStep && words_end - words >= static_cast<std::ptrdiff_t>(2 * kStep); count -= kStep, symbols += kStep) {
    for (std::size_t g = 0; g < kGroups; ++g) {
      const __m512i entry = _mm512_i32gather_epi32(_mm512_and_si512(x[g], low), table, 4);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(symbols + 16 * g), _mm512_cvtepi32_epi8(entry));
      const __m512i f = _mm512_and_si512(_mm512_srli_epi32(entry, 8), low);
      const __m512i y = _mm512_add_epi32(_mm512_mullo_epi32(f, _mm512_srli_epi32(x[g], kProbabilityBits)),
                                         _mm512_srli_epi32(entry, 20));
      const __mmask16 empty = _mm512_cmplt_epu32_mask(y, _mm512_set1_epi32(kLaneLow));
      const __m512i next = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(words)));
      x[g] = _mm512_mask_or_epi32(y, empty, _mm512_slli_epi32(y, 16), _mm512_maskz_expand_epi32(empty, next));
      words += 2 * _mm_popcnt_u32(empty);
    }
  }
  for (std::size_t g = 0; g < kGroups; ++g) _mm512_storeu_si512(lanes + 16 * g, x[g]);
  return kScalarKernels.rans_decode[kGroups - 1](table, symbols, count, lanes, words, words_end);
}

// Where 16 values of `width` bits lie from a bit offset below 8 on: the four bytes that each is in, and its shift.
struct Unpack {
  __m512i bytes, shifts, mask;
  unsigned width;
  Unpack(unsigned value_width, unsigned offset) : width(value_width) {
    const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i at = _mm512_add_epi32(_mm512_mullo_epi32(lane, _mm512_set1_epi32(static_cast<int>(width))),
                                        _mm512_set1_epi32(static_cast<int>(offset)));
    bytes = _mm512_add_epi32(_mm512_mullo_epi32(_mm512_srli_epi32(at, 3), _mm512_set1_epi32(0x01010101)),
                             _mm512_set1_epi32(0x03020100));
    shifts = _mm512_and_si512(at, _mm512_set1_epi32(7));
    mask = _mm512_set1_epi32((1 << width) - 1);
  }
  __m512i get(const std::uint8_t* from) const {
    const __m512i words = _mm512_permutexvar_epi8(bytes, _mm512_loadu_si512(from));
    return _mm512_and_si512(_mm512_srlv_epi32(words, shifts), mask);
  }
};

inline __m512i running_sum(__m512i v) {
  const __m512i zero = _mm512_setzero_si512();
  v = _mm512_add_epi32(v, _mm512_alignr_epi32(v, zero, 15));
  v = _mm512_add_epi32(v, _mm512_alignr_epi32(v, zero, 14));
  v = _mm512_add_epi32(v, _mm512_alignr_epi32(v, zero, 12));
  return _mm512_add_epi32(v, _mm512_alignr_epi32(v, zero, 8));
}

std::size_t join_gaps(const std::uint8_t* tokens, std::size_t count, const GapCode& code, const std::uint8_t* bits,
                      std::uint64_t& at, std::uint32_t* marks) {
  const std::uint32_t* first = marks;
  const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(code.place_bits));
  const __m512i one = _mm512_set1_epi32(1), last = _mm512_set1_epi32(15);
  const __m128i escape = _mm_set1_epi8(static_cast<char>(code.escape));
  __m512i carry = _mm512_set1_epi32(static_cast<int>(code.next) - 1);
  Unpack unpack(code.place_bits, at % 8);
  for (; count >= 16; count -= 16, tokens += 16) {
    const __m128i group = _mm_loadu_si128(reinterpret_cast<const __m128i*>(tokens));
    const __m512i cells = _mm512_sll_epi32(_mm512_cvtepu8_epi32(group), shift);
    const __m512i places = unpack.get(bits + at / 8);
    const __mmask16 escaped = _mm_cmpeq_epi8_mask(group, escape);
    if (escaped == 0) {
      const __m512i sums = running_sum(_mm512_add_epi32(_mm512_add_epi32(cells, places), one));
      _mm512_storeu_si512(marks, _mm512_add_epi32(sums, carry));
      carry = _mm512_add_epi32(carry, _mm512_permutexvar_epi32(last, sums));
      marks += 16;
      at += 16 * unpack.width;
    } else {
      const __mmask16 ends = static_cast<__mmask16>(~escaped);
      const __m512i rest = _mm512_maskz_expand_epi32(ends, _mm512_add_epi32(places, one));
      const __m512i sums = running_sum(_mm512_add_epi32(cells, rest));
      _mm512_storeu_si512(marks, _mm512_maskz_compress_epi32(ends, _mm512_add_epi32(sums, carry)));
      carry = _mm512_add_epi32(carry, _mm512_permutexvar_epi32(last, sums));
      const unsigned found = static_cast<unsigned>(_mm_popcnt_u32(ends));
      marks += found;
      at += found * unpack.width;
      unpack = Unpack(code.place_bits, at % 8);
    }
  }
  GapCode rest = code;
  rest.next = static_cast<std::uint32_t>(_mm_cvtsi128_si32(_mm512_castsi512_si128(carry))) + 1;
  return static_cast<std::size_t>(marks - first) + kScalarKernels.join_gaps(tokens, count, rest, bits, at, marks);
}

std::size_t split_gaps(const std::uint32_t* marks, std::size_t count, const GapCode& code, std::uint8_t* tokens,
                       std::uint8_t* bits, std::uint64_t& at) {
  const std::uint8_t* first = tokens;
  GapCode rest = code;
  std::size_t i = 0;
  const unsigned k = code.place_bits;
  if (k <= 14) {
    const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(k));
    const __m512i place_mask = _mm512_set1_epi32((1 << k) - 1), escape = _mm512_set1_epi32(code.escape);
    const std::uint64_t pick = 0x0001'0001'0001'0001ull * ((1u << k) - 1);
    for (; i + 16 <= count; i += 16) {
      const __m512i now = _mm512_loadu_si512(marks + i);
      const __m512i before = i == 0 ? _mm512_alignr_epi32(now, _mm512_set1_epi32(static_cast<int>(code.next) - 1), 15)
                                    : _mm512_loadu_si512(marks + i - 1);
      const __m512i gaps = _mm512_sub_epi32(_mm512_sub_epi32(now, before), _mm512_set1_epi32(1));
      const __m512i cells = _mm512_srl_epi32(gaps, shift);
      if (_mm512_cmpge_epu32_mask(cells, escape) != 0) {
        rest.next = i == 0 ? code.next : marks[i - 1] + 1;
        tokens += kScalarKernels.split_gaps(marks + i, 16, rest, tokens, bits, at);
        continue;
      }
      _mm_storeu_si128(reinterpret_cast<__m128i*>(tokens), _mm512_cvtepi32_epi8(cells));
      tokens += 16;
      if (k != 0) {
        const __m256i places = _mm512_cvtepi32_epi16(_mm512_and_si512(gaps, place_mask));
        const __m128i low = _mm256_castsi256_si128(places), high = _mm256_extracti128_si256(places, 1);
        put_bits(_pext_u64(static_cast<std::uint64_t>(_mm_cvtsi128_si64(low)), pick), 4 * k, bits, at);
        put_bits(_pext_u64(static_cast<std::uint64_t>(_mm_extract_epi64(low, 1)), pick), 4 * k, bits, at);
        put_bits(_pext_u64(static_cast<std::uint64_t>(_mm_cvtsi128_si64(high)), pick), 4 * k, bits, at);
        put_bits(_pext_u64(static_cast<std::uint64_t>(_mm_extract_epi64(high, 1)), pick), 4 * k, bits, at);
      }
    }
  }
  if (i != 0) rest.next = marks[i - 1] + 1;
  return static_cast<std::size_t>(tokens - first) +
         kScalarKernels.split_gaps(marks + i, count - i, rest, tokens, bits, at);
}

std::size_t split_signs16(const void* from, std::size_t count, std::uint8_t* bits, std::uint64_t& at) {
  const std::uint16_t* steps = static_cast<const std::uint16_t*>(from);
  std::size_t large = 0;
  for (std::size_t i = 0; i < count; i += 32) {
    const std::size_t here = count - i < 32 ? count - i : 32;
    const __mmask32 valid = static_cast<__mmask32>(_bzhi_u64(~std::uint64_t{0}, static_cast<unsigned>(here)));
    const __m512i v = _mm512_mask_loadu_epi16(_mm512_set1_epi16(1), valid, steps + i);
    put_bits(_mm512_movepi16_mask(v), static_cast<unsigned>(here), bits, at);
    large += static_cast<std::size_t>(
        _mm_popcnt_u32(_mm512_cmpneq_epi16_mask(_mm512_abs_epi16(v), _mm512_set1_epi16(1))));
  }
  return large;
}

void join_signs16(const std::uint8_t* bits, std::uint64_t& at, std::size_t count, void* to) {
  std::uint16_t* steps = static_cast<std::uint16_t*>(to);
  const __m512i one = _mm512_set1_epi16(1), minus = _mm512_set1_epi16(-1);
  for (std::size_t i = 0; i < count; i += 32) {
    const std::uint64_t word = load_le<std::uint64_t>(bits + (at + i) / 8) >> ((at + i) % 8);
    _mm512_storeu_si512(steps + i, _mm512_mask_blend_epi16(static_cast<__mmask32>(word), one, minus));
  }
  at += count;
}

}  // namespace

const Kernels kAvx512Kernels = {
    "avx512",
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
