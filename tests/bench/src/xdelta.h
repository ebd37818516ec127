// xdelta3, the program, where it is installed: on files in memory, process start included.
#pragma once

#include "tests/bench/src/measure.h"

namespace p2pw::bench {

// Nothing when there is no xdelta3, or it fails.
std::optional<Row> measure_xdelta(const Pair& pair);

}  // namespace p2pw::bench
