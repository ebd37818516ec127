// Planes mode: a slab without a parent. The bits of a float are of two kinds. Exponent and upmost mantissa bits are
// unevenly spread: they form a token of one byte, which rANS codes with a table of the slab. The rest (sign, lower
// mantissa) is all but random and stands as it is, packed. One-byte elements are tokens as a whole. Wider integers go
// byte plane by byte plane through zstd.
#pragma once

#include "chunker/codec/bit_io.h"
#include "chunker/codec/byte_io.h"
#include "chunker/codec/element.h"
#include "chunker/codec/rans.h"
#include "chunker/codec/scratch.h"
#include "chunker/codec/zstd_coder.h"

namespace p2pw::codec {

class PlanesCoder {
 public:
  // Appends the body. May be larger than the slab.
  void encode(ByteView now, const ElementModel& model, Bytes& out);
  // Fills `slab`. Errors: malformed.
  Status decode(ByteView body, const ElementModel& model, std::span<std::byte> slab);

 private:
  void encode_tokens(ByteView now, const ElementModel& model, Bytes& out);
  Status decode_tokens(ByteView body, const ElementModel& model, std::span<std::byte> slab);

  ZstdCoder zstd_;
  Bytes plane_, packed_;
  Scratch<std::uint8_t> tokens_, rest_;
  std::vector<std::uint16_t> words_;
  std::vector<std::uint8_t> head_;
  BitWriter table_;
  RansModel model_;
};

}  // namespace p2pw::codec
