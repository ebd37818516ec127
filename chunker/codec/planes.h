// Planes mode: byte k of every element stands in plane k; each plane is coded by itself. For floats the bits of an
// element are first turned left by one, so that the exponent fills whole bytes and the sign joins the mantissa.
#pragma once

#include "chunker/codec/byte_io.h"
#include "chunker/codec/element.h"
#include "chunker/codec/zstd_coder.h"

namespace p2pw::codec {

class PlanesCoder {
 public:
  void encode(ByteView now, const ElementModel& model, ZstdCoder& zstd, Bytes& out);
  // Fills `slab`. Errors: malformed.
  Status decode(ByteReader& in, const ElementModel& model, ZstdCoder& zstd, std::span<std::byte> slab);

 private:
  Bytes plane_;
  Bytes packed_;
};

}  // namespace p2pw::codec
