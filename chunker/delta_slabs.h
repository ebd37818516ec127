// Byte slabs out of a delta file, and with them the layout that it leads to.
#pragma once

#include "chunker/codec/codec.h"
#include "chunker/delta_file.h"
#include "chunker/slab_reader.h"

namespace p2pw {

// Decodes the byte slabs of one delta file against one parent. One thread.
class DeltaByteSlabs {
 public:
  // `parent` is null for an anchor. Both must outlive the object.
  DeltaByteSlabs(const DeltaFile& delta, const SlabReader* parent) : delta_(delta), parent_(parent) {}

  // The file table and the headers: all that is needed to know what the other slabs are. Errors: integrity, malformed,
  // unsupported, limit; those of reading.
  Result<Layout> layout();

  // `slab` is one of `layout`.
  Result<Bytes> decode(const Layout& layout, const Slab& slab);

 private:
  Result<Bytes> decode(SlabId id, const Slab* old);

  const DeltaFile& delta_;
  const SlabReader* parent_;
  codec::SlabDecoder decoder_;
  Bytes frame_;
};

// integrity, naming the delta file.
Error damaged_delta(const DeltaFile& delta, const std::string& why);

// When a delta does not go through, its parent is looked at first: a frame on wrong bytes fails in any way. `error`
// itself when the parent is right, else wrong_parent, naming the file.
Error explain_failure(const DeltaFile& delta, const SlabReader& parent, Error error);

}  // namespace p2pw
