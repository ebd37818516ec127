// How much of what a seed has handed over may wait for the disk. A seed is faster than any disk, and what it sends lies in
// memory until it is stored: beyond `kFull` its session is not read from, until half of that is left.
//
// Pure. Control thread only.
#pragma once

#include <cstdint>

namespace p2pw {

class StoreWindow {
 public:
  static constexpr std::uint64_t kFull = 64u << 20;

  // True: from now on nothing more should be taken.
  bool taken(std::uint64_t bytes) {
    waiting_ += bytes;
    if (full_ || waiting_ <= kFull) return false;
    return full_ = true;
  }
  // True: there is room again. What could not be stored is told here, too.
  bool stored(std::uint64_t bytes) {
    waiting_ -= bytes;
    if (!full_ || waiting_ > kFull / 2) return false;
    full_ = false;
    return true;
  }
  std::uint64_t waiting() const { return waiting_; }

 private:
  std::uint64_t waiting_ = 0;
  bool full_ = false;
};

}  // namespace p2pw
