// Constants of the sparse body that encoder and decoder share. CODEC.md is the specification.
#pragma once

#include <cstddef>

namespace p2pw::codec {

// How a set of positions is given.
inline constexpr unsigned kNone = 0, kMarked = 1, kUnmarked = 2;

inline constexpr unsigned kCountOrder = 7;   // Exp-Golomb orders
inline constexpr unsigned kWordsOrder = 10;
inline constexpr unsigned kFirstPace = 60;   // predicted for the first class; each class below is 8 less
inline constexpr std::size_t kOneLaneBelow = 1024;  // tokens

}  // namespace p2pw::codec
