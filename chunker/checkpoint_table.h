// What one version of a checkpoint consists of: its layout and the digest of every slab. The table of a version is that
// of its parent with the digests of those slabs replaced that have a frame, so it is known once all metas are.
#pragma once

#include <map>
#include <memory>

#include "chunker/byte_store.h"
#include "chunker/codec/codec.h"
#include "chunker/layout.h"

namespace p2pw {

// Layout and byte slabs; the bytes themselves lie in a ByteStore.
struct ByteTable {
  std::shared_ptr<const Layout> layout;
  std::vector<Digest> digests;  // one for each of layout->byte_slabs()
};

struct CheckpointTable {
  ByteTable bytes;
  std::vector<Digest> tensors;  // one for each of layout->tensor_slabs()
  Sha256 hash() const { return slab_table_hash(bytes.layout->hash(), bytes.digests, tensors); }
};

// Reads the layout back from the store. Errors: not_found or integrity (a byte slab is gone or damaged), malformed.
Result<ByteTable> load_byte_table(const ByteStore& store, const std::vector<Digest>& digests);

// A byte frame in the clear and the digest of the slab after it.
struct ByteFrame {
  Bytes frame;
  Digest digest;
};

// Decodes the byte frames of one run, by index of the slab in the new version: first the file table, then the rest
// against their counterparts in `parent` (null for an anchor). New slabs are put into the store.
// Errors: incomplete (a slab has neither frame nor counterpart, or the layout is not `expected`: a frame is missing),
// malformed, integrity, wrong_parent (tensor slabs differ from the parent's), io, no_space.
Result<ByteTable> advance_byte_table(ByteStore& store, const ByteTable* parent,
                                     const std::map<std::uint32_t, ByteFrame>& frames, const LayoutHash& expected,
                                     codec::SlabDecoder& decoder);

}  // namespace p2pw
