// One worker's part of the diff pipeline: reads a slab and its parent, encodes, checks.
#pragma once

#include "chunker/codec/codec.h"
#include "chunker/diff.h"
#include "chunker/slab_buffer.h"
#include "chunker/slab_reader.h"

namespace p2pw {

// What all workers share. `parent` is null for an anchor.
struct SlabSources {
  const SlabReader* now = nullptr;
  const SlabReader* parent = nullptr;
  const SlabDigests* known_parent = nullptr;
  bool self_check = true;
  std::function<void(SlabId)> parent_damaged;  // see DiffOptions
};

struct EncodedSlab {
  bool changed = false;
  Frame frame;
  Digest parent_digest;  // zero without a parent
};

// Scratch memory and coders of one thread.
class SlabWorker {
 public:
  explicit SlabWorker(const SlabSources& sources) : sources_(sources) {}
  Result<EncodedSlab> encode(const Slab& slab);
  // Bytes of the frame that the slab's first `most` bytes would make, beside the same part of the parent; for estimates.
  Result<std::uint64_t> measure(const Slab& slab, std::uint32_t most);

 private:
  Result<EncodedSlab> encode_part(const Slab& slab, std::uint32_t most);
  Result<EncodedSlab> encode_from(const Slab& slab, std::span<std::byte> parent, ByteView now,
                                  const Slab* parent_slab);
  Status check_parent(const Slab& slab, const Digest& found) const;
  Status self_check(const Slab& slab, const Bytes& frame, std::span<std::byte> parent, ByteView now);

  SlabSources sources_;
  codec::SlabEncoder encoder_;
  codec::SlabDecoder decoder_;
  SlabBuffer parent_, now_;
  Bytes decoded_;
};

// "FILE, slab N" for messages.
std::string place_of(const Layout& layout, const Slab& slab);

}  // namespace p2pw
