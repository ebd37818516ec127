// The machine's clock, to the millisecond that records and reports have.
#pragma once

#include <chrono>

#include "protocol/ids.h"

namespace p2pw {

inline WallTime wall_clock() {
  return std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
}

}  // namespace p2pw
