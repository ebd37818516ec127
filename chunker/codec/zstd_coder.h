// The two uses of zstd: byte slabs against their parent, and the compressible planes of an anchor.
#pragma once

#include <memory>

#include "protocol/ids.h"
#include "protocol/result.h"

namespace p2pw::codec {

// Contexts are kept for reuse: one coder for each thread.
class ZstdCoder {
 public:
  ZstdCoder();
  ~ZstdCoder();
  ZstdCoder(ZstdCoder&&) noexcept;

  // Appends the compressed form and returns true; false, with `out` as before, when it would not be smaller.
  bool patch(ByteView parent, ByteView now, Bytes& out);
  bool compress(ByteView plane, Bytes& out);

  // Fills exactly `out`. Errors: malformed.
  Status unpatch(ByteView parent, ByteView packed, std::span<std::byte> out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace p2pw::codec
