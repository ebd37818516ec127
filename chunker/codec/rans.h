// Interleaved rANS: the entropy coder of every mode. Symbols are bytes; a model gives each a share of 4096.
//
// Method: J. Duda, "Asymmetric numeral systems" (2009), in the byte-wise, interleaved form of F. Giesen, "Interleaved
// entropy coders" (2014). A lane is a 32-bit state in [2^16, 2^32), refilled 16 bits at a time. There
// are 1, 16 or 32 lanes, and symbol i of a sequence belongs to lane i mod that, so that a vector decodes 16 symbols at
// once; sequences follow each other on the same lanes. All lanes share one stream of words; at each step the lanes that need a word take it in lane order.
//
// A lane starts (for the encoder, which runs backwards) at 2^16 plus 16 bits of payload that come out again at the
// decoder's end, so that a lane costs 2 bytes and not 4.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "chunker/codec/bit_io.h"
#include "protocol/ids.h"

namespace p2pw::codec {

inline constexpr unsigned kProbabilityBits = 12;
inline constexpr std::uint32_t kProbabilityScale = 1u << kProbabilityBits;
inline constexpr std::size_t kLanes = 16, kMaxLanes = 32;
inline constexpr std::uint32_t kLaneLow = 1u << 16;

// How much of kProbabilityScale each symbol has.
struct Shares {
  std::array<std::uint16_t, 256> share{};
  std::size_t used = 0;  // symbols from here on have none
};

struct alignas(64) RansModel {
  std::uint32_t decode[kProbabilityScale];  // by slot: symbol | share << 8 | (slot - first slot of the symbol) << 20
  std::uint32_t share[256];                 // share | first slot << 16

  // REQUIRES: shares sum to kProbabilityScale, none is kProbabilityScale itself.
  void build(const Shares& shares);
  bool has(std::uint8_t symbol) const { return share[symbol] != 0; }
};

// One symbol backwards, one symbol forward.
inline void rans_put(const RansModel& model, std::uint8_t symbol, std::uint32_t& lane, std::uint16_t*& out) {
  const std::uint32_t f = model.share[symbol] & 0xFFFF, first = model.share[symbol] >> 16;
  if (lane >> 20 >= f) {
    *--out = static_cast<std::uint16_t>(lane);
    lane >>= 16;
  }
  lane = ((lane / f) << kProbabilityBits) + lane % f + first;
}
inline bool rans_get(const std::uint32_t* table, std::uint8_t& symbol, std::uint32_t& lane, const std::byte*& words,
                     const std::byte* words_end) {
  const std::uint32_t entry = table[lane % kProbabilityScale];
  symbol = static_cast<std::uint8_t>(entry);
  lane = (entry >> 8 & 0xFFF) * (lane >> kProbabilityBits) + (entry >> 20);
  if (lane < kLaneLow) {
    if (words_end - words < 2) return false;
    lane = lane << 16 | load_le<std::uint16_t>(words);
    words += 2;
  }
  return true;
}

using Lanes = std::array<std::uint32_t, kMaxLanes>;

// One sequence to code with one model.
struct RansSequence {
  const RansModel* model;
  std::span<const std::uint8_t> symbols;
};

// Codes sequences in the given order (as the decoder will meet them) on `lanes`, and returns the words.
// `scratch` is grown as needed; the words are its tail.
std::span<const std::uint16_t> rans_encode(std::span<const RansSequence> sequences, unsigned lane_count, Lanes& lanes,
                                           std::vector<std::uint16_t>& scratch);

// Words as the frame has them.
inline void put_words(std::span<const std::uint16_t> words, std::byte* to) {
  if constexpr (std::endian::native == std::endian::little) {
    if (!words.empty()) std::memcpy(to, words.data(), words.size() * 2);
  } else {
    for (std::size_t i = 0; i < words.size(); ++i) store_le(to + 2 * i, words[i]);
  }
}

class RansDecoder {
 public:
  RansDecoder(const Lanes& lanes, unsigned lane_count, ByteView words)
      : lanes_(lanes), lane_count_(lane_count), at_(words.empty() ? &kNoWord : words.data()), end_(at_ + words.size()) {}
  // False when the words run out; `symbols` is then unspecified.
  bool decode(const RansModel& model, std::span<std::uint8_t> symbols);
  // All words are used and every lane is back in [2^16, 2^17), as a true frame leaves it.
  bool finished() const;
  const Lanes& lanes() const { return lanes_; }

 private:
  Lanes lanes_;
  unsigned lane_count_;  // 1, 16 or 32
  static constexpr std::byte kNoWord{};
  const std::byte* at_;  // null once the words have run out
  const std::byte* end_;
};

// Shares of 4096 in proportion to `counts`: at least 1 for each that occurs, never all for one.
// REQUIRES: at most 256 counts, their sum below 2^48.
Shares shares_of(std::span<const std::uint64_t> counts);

}  // namespace p2pw::codec
