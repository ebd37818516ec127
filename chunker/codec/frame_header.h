// The first bytes of every frame: format, mode, and what the slab holds. CODEC.md is the specification.
#pragma once

#include "chunker/codec/byte_io.h"
#include "chunker/codec/element.h"
#include "protocol/result.h"

namespace p2pw::codec {

enum class Mode : std::uint8_t {
  raw = 0,     // the bytes themselves
  sparse = 1,  // which elements changed, ranked in their class, and by how many steps
  planes = 2,  // byte planes, each entropy coded by itself; needs no parent
  patch = 3,   // zstd with the parent as prefix
};

struct FrameHeader {
  Mode mode = Mode::raw;
  unsigned width = 1;              // bytes of an element
  std::uint64_t slab_bytes = 0;    // at most limits::kSlabBytes, a multiple of width
  std::uint64_t changed = 0;       // elements, at most slab_bytes / width
  bool needs_parent() const { return mode == Mode::sparse || mode == Mode::patch; }
};

void write_header(const FrameHeader& header, ByteWriter& out);

// Errors: malformed, unsupported (another format), limit.
Result<FrameHeader> read_header(ByteReader& in);

}  // namespace p2pw::codec
