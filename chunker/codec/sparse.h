// Sparse mode: which elements changed, ranked inside their class, and by how many steps. Any density; near the entropy.
#pragma once

#include <memory>

#include "chunker/codec/byte_io.h"
#include "chunker/codec/element.h"
#include "chunker/codec/slab_hash.h"
#include "protocol/result.h"

namespace p2pw::codec {

class SparseEncoder {
 public:
  SparseEncoder();
  ~SparseEncoder();
  SparseEncoder(SparseEncoder&&) noexcept;

  // Compares, adds `now` to `hash` and, where there is one, `parent` to `parent_hash` in the same sweep, and returns how
  // many elements changed. REQUIRES: equal sizes, whole elements.
  std::uint64_t compare(ByteView parent, ByteView now, const ElementModel& model, SlabHash& hash,
                        SlabHash* parent_hash = nullptr);
  // Appends the body of what compare() found. REQUIRES: something changed.
  void put(Bytes& out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class SparseDecoder {
 public:
  SparseDecoder();
  ~SparseDecoder();
  SparseDecoder(SparseDecoder&&) noexcept;

  // Patches `slab` and adds what it then holds to `hash`. Errors: malformed.
  Status decode(ByteView body, const ElementModel& model, std::uint64_t changed, std::span<std::byte> slab,
                SlabHash& hash);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace p2pw::codec
