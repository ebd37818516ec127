// SHA-256 and the BEP 52 tree over it. OpenSSL does the work (SHA-NI, 2 GB/s a core).
#pragma once

#include <memory>
#include <span>

#include "protocol/ids.h"

namespace p2pw {

Sha256 sha256(ByteView bytes);

// For input that comes in parts.
class Sha256Stream {
 public:
  Sha256Stream();
  ~Sha256Stream();
  Sha256Stream(Sha256Stream&&) noexcept;
  Sha256Stream& operator=(Sha256Stream&&) noexcept;
  void add(ByteView bytes);
  Sha256 finish();  // once

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The content address of a chunk: root of the SHA-256 tree over its 16 KiB leaves, the chunk zero-padded to
// `chunk_bytes` (BEP 52). `data` may be shorter than a chunk only for the last one of a bundle; padding is hashed, never
// sent. REQUIRES: chunk_bytes a power of two within limits, data.size() <= chunk_bytes.
ChunkRoot chunk_root(ByteView data, std::uint32_t chunk_bytes);

// BEP 52 pieces root of a file made of whole chunks, from the chunks' roots.
Sha256 pieces_root(std::span<const ChunkRoot> roots, std::uint32_t chunk_bytes);

}  // namespace p2pw
