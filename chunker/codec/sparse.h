// Sparse mode: which elements changed, ranked inside their class, and by how many steps.
#pragma once

#include <memory>

#include "chunker/codec/byte_io.h"
#include "chunker/codec/element.h"
#include "protocol/result.h"

namespace p2pw::codec {

class SparseCoder {
 public:
  SparseCoder();
  ~SparseCoder();
  SparseCoder(SparseCoder&&) noexcept;

  // Appends the body; returns how many elements changed (0: appends nothing). REQUIRES: equal sizes, whole elements.
  std::uint64_t encode(ByteView parent, ByteView now, const ElementModel& model, Bytes& out);

  // Patches `slab`. Errors: malformed.
  Status decode(ByteReader& in, const ElementModel& model, std::uint64_t changed, std::span<std::byte> slab);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace p2pw::codec
