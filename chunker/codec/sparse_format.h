// The head of a sparse body: what encoder and decoder must know of each class before tokens and plain bits mean
// anything. CODEC.md is the specification.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "chunker/codec/bit_io.h"
#include "chunker/codec/classes.h"
#include "chunker/codec/gaps.h"
#include "chunker/codec/steps.h"

namespace p2pw::codec {

enum class Positions : std::uint8_t { none = 0, changed = 1, unchanged = 2 };  // what the gaps lead to
// All +-1; or tokens, with a table that follows from the base's, is carried, or is carried and is the base.
enum class Steps : std::uint8_t { ones = 0, derived = 1, carried = 2, base = 3 };

struct ClassHead {
  Positions positions = Positions::none;
  Steps steps = Steps::ones;
  std::uint64_t gap_tokens = 0;
  std::uint64_t changed = 0;  // carried where the gaps lead to unchanged elements
  unsigned pace = 0;
  StepTable table;  // where it is carried
  bool carries_table() const { return steps >= Steps::carried; }
};

// Numbers of neighbouring classes are alike, so each is coded from the one before.
class HeadCoding {
 public:
  unsigned count_order() const { return count_order_; }
  void saw_count(std::uint64_t count) {
    count_order_ = std::clamp(static_cast<unsigned>(std::bit_width(count)), 3u, 23u) - 1;
  }
  // The spacing halves from class to class, so the chance doubles and the pace falls by 8.
  unsigned expected_pace() const { return pace_; }
  void saw_pace(unsigned pace) { pace_ = pace; }
  void next_class() { pace_ = std::max(pace_, kMinPace + 8) - 8; }

 private:
  unsigned count_order_ = 10;
  unsigned pace_ = 60;
};

inline constexpr unsigned kPaceOrder = 1;   // Exp-Golomb orders
inline constexpr unsigned kWordsOrder = 12;
inline constexpr std::size_t kOneLaneBelow = 1024;  // tokens

void put_class_head(const ClassHead& head, HeadCoding& coding, BitWriter& out);
bool get_class_head(BitReader& in, HeadCoding& coding, ClassHead& head);

}  // namespace p2pw::codec
