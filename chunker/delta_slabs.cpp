#include "chunker/delta_slabs.h"

namespace p2pw {

Error damaged_delta(const DeltaFile& delta, const std::string& why) {
  return fail(ErrorCode::integrity, delta.path().string() + ": " + why);
}

Result<Layout> DeltaByteSlabs::layout() {
  const FileTable* old_table = parent_ != nullptr ? &parent_->layout().table() : nullptr;
  P2PW_TRY(Bytes encoded, decode(SlabId::bytes(0), old_table != nullptr ? &old_table->byte_slabs()[0] : nullptr));
  P2PW_TRY(FileTable table, FileTable::parse(encoded));
  std::vector<Bytes> headers;
  for (std::size_t i = 0; i < table.files().size(); ++i) {
    if (!table.files()[i].is_tensor_file()) continue;
    Bytes& header = headers.emplace_back();
    for (const Slab& slab : table.byte_slabs_of(i)) {
      P2PW_TRY(Bytes part, decode(slab.id, old_table != nullptr ? table.counterpart(slab, *old_table) : nullptr));
      header.insert(header.end(), part.begin(), part.end());
    }
  }
  P2PW_TRY(Layout layout, Layout::from_parts(encoded, std::move(headers)));
  if (layout.hash() != delta_.info().layout_hash) {
    return damaged_delta(delta_, "it leads to another layout than it names");
  }
  if (parent_ != nullptr && !layout.same_tensor_slabs(parent_->layout())) {
    return fail(ErrorCode::malformed, delta_.path().string() + ": a delta that changes where tensors lie");
  }
  for (const DeltaFile::Entry& frame : delta_.frames()) {
    if (layout.find(frame.slab) == nullptr) {
      return fail(ErrorCode::malformed, delta_.path().string() + ": a frame of a slab that is not there");
    }
  }
  return layout;
}

Result<Bytes> DeltaByteSlabs::decode(const Layout& layout, const Slab& slab) {
  const Slab* old = parent_ != nullptr ? layout.counterpart(slab, parent_->layout()) : nullptr;
  P2PW_TRY(Bytes bytes, decode(slab.id, old));
  if (bytes.size() != slab.length) return damaged_delta(delta_, "a frame of a wrong length");
  return bytes;
}

Result<Bytes> DeltaByteSlabs::decode(SlabId id, const Slab* old) {
  Bytes parent;
  if (old != nullptr) {
    parent.resize(old->length);
    P2PW_CHECK(parent_->read(*old, parent));
  }
  const DeltaFile::Entry* frame = delta_.find(id);
  if (frame == nullptr) {
    if (old == nullptr) return damaged_delta(delta_, "a frame is missing");
    return parent;
  }
  P2PW_CHECK(delta_.read(*frame, frame_));
  Bytes out;
  P2PW_TRY(codec::Decoded decoded, decoder_.decode_bytes(frame_, parent, out));
  if (decoded.digest != frame->digest) {
    return damaged_delta(delta_, "a frame decodes to other bytes than it should");
  }
  return out;
}

Error explain_failure(const DeltaFile& delta, const SlabReader& parent, Error error) {
  bool suspect = error.code == ErrorCode::integrity || error.code == ErrorCode::malformed ||
                 error.code == ErrorCode::wrong_parent || error.code == ErrorCode::limit ||
                 error.code == ErrorCode::unsupported;
  if (!suspect) return error;
  const Layout& layout = parent.layout();
  auto digests = digest_checkpoint({parent.directory(), &layout}, {});
  if (!digests) return std::move(digests).error();
  if (digests->table_hash(layout.hash()) == delta.info().parent_table) return error;
  std::string what = first_difference(delta.info().parent_checks, layout, *digests);
  return fail(ErrorCode::wrong_parent, parent.directory().string() + ": not the parent of " + delta.path().string() +
                                           ": " + (what.empty() ? "one of its files" : what) + " differs; give the checkpoint that the delta was made from");
}

}  // namespace p2pw
