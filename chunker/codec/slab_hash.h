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

}  // namespace p2pw::codec
