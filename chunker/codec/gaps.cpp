#include "chunker/codec/gaps.h"

#include <algorithm>
#include <memory>

#include "chunker/codec/kernels.h"

namespace p2pw::codec {
namespace {

// Models exist for the paces 4 to 31; from 32 on cells of 2^k elements bring the pace back to 24 to 31.
constexpr unsigned kModels = 28;
constexpr unsigned kCellPace = 24;

// exp(-2^(-pace / 8)) in units of 2^-32, rounded, for the paces 4 to 31: the chance to pass one cell.
constexpr std::uint32_t kPass[kModels] = {
    0x7E39BFF0, 0x85DAE60A, 0x8D418996, 0x9466DD83, 0x9B4597E3, 0xA1D9D354, 0xA820ECBF, 0xAE195F50, 0xB3C2A029,
    0xB91CFAFE, 0xBE29706C, 0xC2E996AE, 0xC75F7CF5, 0xCB8D91AE, 0xCF768BA8, 0xD31D561D, 0xD684FF71, 0xD9B0AA83,
    0xDCA38252, 0xDF60AFBC, 0xE1EB5127, 0xE44673D0, 0xE6750E8B, 0xE879FDC8, 0xEA5800A6, 0xEC11B6EF, 0xEDA99FD4,
    0xEF221946};

struct Models {
  RansModel model[kModels];
  std::uint8_t escape[kModels];

  Models() {
    for (unsigned m = 0; m < kModels; ++m) {
      Shares shares;
      std::uint64_t passed = std::uint64_t{1} << 32;
      std::uint32_t first = 0;
      while (true) {
        passed = passed * kPass[m] >> 32;
        const std::uint32_t next = static_cast<std::uint32_t>(
            (kProbabilityScale * ((std::uint64_t{1} << 32) - passed) + (std::uint64_t{1} << 31)) >> 32);
        if (next == first || next >= kProbabilityScale) break;
        shares.share[shares.used++] = static_cast<std::uint16_t>(next - first);
        first = next;
      }
      escape[m] = static_cast<std::uint8_t>(shares.used);
      shares.share[shares.used++] = static_cast<std::uint16_t>(kProbabilityScale - first);
      model[m].build(shares);
    }
  }
};

const Models& models() {
  static const std::unique_ptr<const Models> instance = std::make_unique<Models>();
  return *instance;
}

}  // namespace

GapCode gap_code(unsigned pace) {
  const unsigned cells = pace < kCellPace ? 0 : (pace - kCellPace) / 8;
  const unsigned m = pace - cells * 8 - kMinPace;
  return {&models().model[m], cells, models().escape[m]};
}

unsigned pace_for(std::uint64_t marks, std::uint64_t universe) {
  // 1 / hazard = universe / marks - 1/2, to second order; in units of 1 / 1024.
  const std::uint64_t inverse = std::max<std::uint64_t>((universe * 1024 + marks / 2) / marks, 1536) - 512;
  // 8 * log2, rounded: 2^((i + 0.5) / 8) in units of 1 / 1024.
  static constexpr std::uint32_t kHalfSteps[8] = {1069, 1166, 1272, 1387, 1512, 1649, 1798, 1961};
  const unsigned octave = static_cast<unsigned>(std::bit_width(inverse)) - 11;
  const std::uint64_t rest = octave >= 1 ? inverse >> octave : inverse;
  unsigned pace = octave * 8;
  for (std::uint32_t step : kHalfSteps) pace += rest >= step ? 1 : 0;
  return std::clamp(pace, kMinPace, kMaxPace);
}

void split_gaps(std::span<const std::uint32_t> marks, const GapCode& code, TokenBuffer& tokens, BitWriter& places) {
  if (marks.empty()) return;
  places.reserve(marks.size() * code.place_bits);
  const std::size_t escapes = (marks.back() >> code.place_bits) / code.escape;
  std::uint8_t* to = tokens.grow(marks.size() + escapes);
  std::uint64_t at = places.count();
  tokens.size += kernels().split_gaps(marks.data(), marks.size(), code, to, places.data(), at);
  places.set_count(at);
}

bool join_gaps(std::span<const std::uint8_t> tokens, const GapCode& code, BitReader& places, std::uint64_t bound,
               Scratch<std::uint32_t>& marks, std::size_t& found) {
  found = 0;
  if (tokens.empty()) return true;
  std::uint64_t cells = 0, escapes = 0;
  for (std::uint8_t token : tokens) {
    cells += token;
    escapes += token == code.escape ? 1 : 0;
  }
  const std::uint64_t count = tokens.size() - escapes;
  // The second bound holds for every true frame, and keeps positions from wrapping.
  if (cells << code.place_bits >= bound || count << code.place_bits > bound || tokens.back() == code.escape ||
      places.left() < count * code.place_bits) {
    return false;
  }
  std::uint64_t at = places.count();
  found = kernels().join_gaps(tokens.data(), tokens.size(), code, places.data(), at, marks.reserve(tokens.size() + 64));
  places.set_count(at);
  return marks.data()[found - 1] < bound;
}

}  // namespace p2pw::codec
