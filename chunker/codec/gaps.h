// Sets of positions as gaps. In a class each element changes with about the same probability, independently: the gap to
// the next change is geometric, and one number describes its model.
//
// That number is the pace: the probability is 1 - exp(-2^(-pace / 8)). A gap is a token (which of equal cells it falls
// into; coded with the model) and the place inside the cell (k plain bits). Cells are so small that the place is all
// but uniform. The last token, escape, stands for "as many cells as there are tokens, and on": the geometric
// distribution has no memory, so a long gap is some escapes and then a token. The models of all paces are computed once.
#pragma once

#include "chunker/codec/bit_io.h"
#include "chunker/codec/rans.h"
#include "chunker/codec/scratch.h"

namespace p2pw::codec {

inline constexpr unsigned kMinPace = 4;    // one in two
inline constexpr unsigned kMaxPace = 199;  // one in 3 * 10^7

struct GapCode {
  const RansModel* model = nullptr;
  unsigned place_bits = 0;
  std::uint8_t escape = 0;  // the token; also the number of cells that it stands for
  std::uint32_t next = 0;   // where the first gap starts
};

// REQUIRES: kMinPace <= pace <= kMaxPace.
GapCode gap_code(unsigned pace);

// A growing string of tokens, without the cost of clearing it.
struct TokenBuffer {
  Scratch<std::uint8_t> bytes;
  std::size_t size = 0;
  std::uint8_t* grow(std::size_t count) {  // room for `count` and 64 more; the caller adds to size what it used
    return bytes.reserve(size + count + 64, size) + size;
  }
  std::span<const std::uint8_t> span(std::size_t begin, std::size_t end) const {
    return {bytes.data() + begin, end - begin};
  }
};

// The pace that suits `marks` of `universe`. REQUIRES: 0 < marks <= universe / 2 + 1.
unsigned pace_for(std::uint64_t marks, std::uint64_t universe);

// Appends the tokens of strictly rising positions below `universe` and the bits of their places.
void split_gaps(std::span<const std::uint32_t> marks, const GapCode& code, TokenBuffer& tokens, BitWriter& places);

// The positions again; false when bits are missing or a position is not below `bound` (at most 2^24).
// `marks` has room for them and 16 more afterwards; `found` says how many there are.
bool join_gaps(std::span<const std::uint8_t> tokens, const GapCode& code, BitReader& places, std::uint64_t bound,
               Scratch<std::uint32_t>& marks, std::size_t& found);

}  // namespace p2pw::codec
