// The slab codec: what changed in a slab, given the slab before. CODEC.md is the specification.
//
// A frame decodes from the parent's bytes alone. The same input gives the same bytes on any number of threads and any
// instruction set. Encoders and decoders keep scratch memory: one object for each thread, reused for many slabs.
#pragma once

#include <memory>

#include "chunker/dtype.h"
#include "protocol/ids.h"

namespace p2pw::codec {

inline constexpr std::uint8_t kFrameFormat = 1;  // first byte of every frame; others are refused by name

// XXH3-128 of a whole slab.
Digest digest_of(ByteView slab);

struct Encoded {
  bool changed = false;  // false: nothing was appended, the slab needs no frame
  Digest digest;         // of `now`
  std::uint64_t elements = 0;
  std::uint64_t changed_elements = 0;
};

class SlabEncoder {
 public:
  SlabEncoder();
  ~SlabEncoder();
  SlabEncoder(SlabEncoder&&) noexcept;

  // Appends the frame that leads from `parent` to `now` to `out`. Tensor slabs have equal sizes, at most
  // limits::kSlabBytes; byte slabs (Dtype::bytes) may differ in size. Never larger than raw + 0.1 % + 64 bytes.
  // `parent_digest`, where asked for, becomes that of `parent`, computed in the same sweep: a publisher must know that it
  // started from what receivers hold.
  Encoded encode_delta(ByteView parent, ByteView now, Dtype dtype, Bytes& out, Digest* parent_digest = nullptr);

  // Appends a frame that needs no parent. Always `changed`; every element counts as changed.
  Encoded encode_anchor(ByteView now, Dtype dtype, Bytes& out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct Decoded {
  Digest digest;  // of the slab after decoding; the caller compares it with the meta
  std::uint64_t changed_elements = 0;
};

class SlabDecoder {
 public:
  SlabDecoder();
  ~SlabDecoder();
  SlabDecoder(SlabDecoder&&) noexcept;

  // Tensor slabs: `slab` holds the parent's bytes (anything, for a frame that needs no parent) and is patched in place.
  // After an error its contents are unspecified and the caller refills it. Errors: malformed, unsupported, limit.
  Result<Decoded> decode_in_place(ByteView frame, Dtype dtype, std::span<std::byte> slab);

  // Byte slabs: `out` is replaced by the new bytes, at most limits::kSlabBytes.
  Result<Decoded> decode_bytes(ByteView frame, ByteView parent, Bytes& out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What a frame says about itself, for `p2pw inspect`; reads the header only.
struct FrameInfo {
  std::string_view mode;  // "sparse", "dense", "raw", "planes", ...
  std::uint64_t elements = 0;
  std::uint64_t changed_elements = 0;
  bool needs_parent = false;
};
Result<FrameInfo> inspect_frame(ByteView frame);

}  // namespace p2pw::codec
