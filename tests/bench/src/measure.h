// Times a codec on a pair, between copies of the same memory.
#pragma once

#include <optional>

#include "tests/bench/src/competitor.h"
#include "tests/bench/src/pair.h"

namespace p2pw::bench {

struct Settings {
  unsigned threads = 1;
  int runs = 5;
  bool cpu_clock = false;  // processor time instead of wall time, for a machine that others use too
};

// Medians, in GB of new bytes a second. No number: not measured.
struct Row {
  std::string codec, data, simd;
  std::uint64_t bytes = 0;
  double bits_per_changed_element = 0;
  std::optional<double> encode, decode, memcpy;
  unsigned threads = 1;
};

// `work` is as large as the pair and is overwritten. What comes out is compared with the new checkpoint; the program
// ends when it differs.
Row measure(const Entry& entry, const Pair& pair, Region& work, const Settings& settings);

}  // namespace p2pw::bench
