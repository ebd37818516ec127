// What no code that knows the old exponent of each element, and nothing else, can go below.
#pragma once

#include "tests/bench/src/pair.h"

namespace p2pw::bench {

struct Floor {
  double empirical_bits = 0;  // all statistics known for nothing
  double adaptive_bits = 0;   // learned on the way (Krichevsky and Trofimov)
};

// Per dtype and old exponent: the entropy of which elements changed, one bit for the direction, and the entropy of the
// magnitudes. In bits for the whole pair.
Floor entropy_floor(const Pair& pair);

}  // namespace p2pw::bench
