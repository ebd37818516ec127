// Frames: as they come, for every dtype and instruction set, against a parent of weights; and behind a good header.
#include <cstdlib>

#include "chunker/codec/codec.h"
#include "chunker/codec/kernels.h"
#include "tests/chunker/codec_data.h"

namespace {

using p2pw::codec::Simd;

// The first byte chooses dtype and size of the parent, the rest is the frame.
void check(p2pw::ByteView frame, p2pw::Dtype dtype, const p2pw::Bytes& parent) {
  static p2pw::codec::SlabDecoder decoder;
  (void)p2pw::codec::inspect_frame(frame);
  p2pw::Bytes first;
  bool first_ok = false, any = false;
  for (Simd simd : {Simd::scalar, Simd::avx2, Simd::avx512}) {
    if (!p2pw::codec::force_simd(simd)) continue;
    p2pw::Bytes slab = parent;
    const auto decoded = decoder.decode_in_place(frame, dtype, slab);
    // All agree on what is well formed, and on what it says.
    if (any && (decoded.ok() != first_ok || (decoded.ok() && slab != first))) std::abort();
    if (decoded.ok() && decoded->digest != p2pw::codec::digest_of(slab)) std::abort();
    any = true;
    first_ok = decoded.ok();
    first = std::move(slab);
  }
  p2pw::Bytes out;
  (void)decoder.decode_bytes(frame, parent, out);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  using p2pw::codec::kTensorDtypes;
  const p2pw::Dtype dtype = kTensorDtypes[data[0] % std::size(kTensorDtypes)];
  const std::size_t elements = data[0] >= 128 ? 5000 : 700;
  const unsigned width = p2pw::codec::model_of(dtype).width;
  static p2pw::Bytes parents[2][std::size(kTensorDtypes)];
  p2pw::Bytes& parent = parents[data[0] >= 128 ? 1 : 0][data[0] % std::size(kTensorDtypes)];
  if (parent.empty()) {
    parent = p2pw::codec::model_of(dtype).is_float ? p2pw::codec::trained_slabs(dtype, elements, 0, 1).before
                                                   : p2pw::codec::random_slabs(dtype, elements, 0, 1).before;
  }
  const p2pw::ByteView rest = std::as_bytes(std::span(data, size)).subspan(1);
  check(rest, dtype, parent);

  // The same bytes as the body of a frame whose header is right.
  for (unsigned mode = 1; mode <= 2; ++mode) {
    const std::size_t bytes = elements * width;
    p2pw::Bytes frame = {std::byte{p2pw::codec::kFrameFormat}, static_cast<std::byte>(mode | std::countr_zero(width) << 4)};
    for (std::size_t value : {bytes, size % (elements + 1)}) {
      for (; value >= 128; value >>= 7) frame.push_back(static_cast<std::byte>(value & 0x7F | 0x80));
      frame.push_back(static_cast<std::byte>(value));
    }
    frame.insert(frame.end(), rest.begin(), rest.end());
    check(frame, dtype, parent);
  }
  return 0;
}
