// The pause before the next attempt to dial: doubles from 50 ms to 2 s, each shortened by up to a half at
// random so that a fleet does not come back in step. Pure: the randomness is handed in.
#pragma once

#include <algorithm>
#include <chrono>
#include <random>

namespace p2pw {

class Backoff {
 public:
  static constexpr std::chrono::milliseconds kFirst{50};
  static constexpr std::chrono::milliseconds kLongest{2000};

  template <class Generator>
  std::chrono::milliseconds next(Generator& generator) {
    const auto whole = pause_;
    pause_ = std::min(pause_ * 2, kLongest);
    return whole -
           std::chrono::milliseconds(std::uniform_int_distribution<long>(0, whole.count() / 2)(generator));
  }
  void reset() { pause_ = kFirst; }

 private:
  std::chrono::milliseconds pause_ = kFirst;
};

}  // namespace p2pw
