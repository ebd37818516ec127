// XXH3-128 in parts, with the best instruction set of the machine.
#pragma once

#include <memory>

#include "protocol/ids.h"

namespace p2pw::codec {

class SlabHash {
 public:
  SlabHash();
  ~SlabHash();
  SlabHash(SlabHash&&) noexcept;
  void reset();
  void add(ByteView bytes);
  Digest finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Hashes a slab behind a sweep over it, in pieces that are still in the first-level cache and not too small.
class TrailingHash {
 public:
  TrailingHash(SlabHash& hash, ByteView slab) : hash_(hash), slab_(slab) {}
  // The sweep is done with everything below `end`.
  void reached(std::size_t end) {
    if (end - done_ < kPiece && end != slab_.size()) return;
    hash_.add(slab_.subspan(done_, end - done_));
    done_ = end;
  }

 private:
  static constexpr std::size_t kPiece = 8192;
  SlabHash& hash_;
  ByteView slab_;
  std::size_t done_ = 0;
};

}  // namespace p2pw::codec
