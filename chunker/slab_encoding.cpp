#include "chunker/slab_encoding.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "chunker/text.h"

namespace p2pw {

std::string place_of(const Layout& layout, const Slab& slab) {
  if (slab.id == SlabId::bytes(0)) return "the file table";
  return printable(layout.files()[slab.file].path) + ", bytes " + std::to_string(slab.offset) + " to " +
         std::to_string(slab.offset + slab.length);
}

Result<EncodedSlab> SlabWorker::encode(const Slab& slab) {
  return encode_part(slab, std::numeric_limits<std::uint32_t>::max());
}

Result<std::uint64_t> SlabWorker::measure(const Slab& slab, std::uint32_t most) {
  P2PW_TRY(EncodedSlab encoded, encode_part(slab, most));
  return encoded.frame.bytes.size();
}

// The first `most` bytes of the slab and of its parent.
Result<EncodedSlab> SlabWorker::encode_part(const Slab& whole, std::uint32_t most) {
  auto part_of = [most](Slab slab) {
    slab.length = std::min(slab.length, most);
    return slab;
  };
  const Slab* counterpart = nullptr;
  if (sources_.parent != nullptr) {
    const Layout& old = sources_.parent->layout();
    counterpart = whole.id.is_bytes() ? sources_.now->layout().counterpart(whole, old) : old.find(whole.id);
  }
  std::optional<Slab> parent_slab;
  std::span<std::byte> parent;
  if (counterpart != nullptr) {
    parent_slab = part_of(*counterpart);
    parent = parent_.get(parent_slab->length);
    P2PW_CHECK(sources_.parent->read(*parent_slab, parent));
  }
  const Slab slab = part_of(whole);
  std::span<std::byte> now = now_.get(slab.length);
  P2PW_CHECK(sources_.now->read(slab, now));
  return encode_from(slab, parent, now, parent_slab ? &*parent_slab : nullptr);
}

Result<EncodedSlab> SlabWorker::encode_from(const Slab& slab, std::span<std::byte> parent, ByteView now,
                                            const Slab* parent_slab) {
  EncodedSlab out;
  Frame& frame = out.frame;
  codec::Encoded encoded = sources_.parent != nullptr
                               ? encoder_.encode_delta(parent, now, slab.dtype, frame.bytes, &out.parent_digest)
                               : encoder_.encode_anchor(now, slab.dtype, frame.bytes);
  out.changed = encoded.changed;
  frame.slab = slab.id;
  frame.dtype = slab.dtype;
  frame.digest = encoded.digest;
  frame.elements = encoded.elements;
  frame.changed_elements = encoded.changed_elements;
  if (parent_slab == nullptr) out.parent_digest = {};
  if (parent_slab != nullptr) P2PW_CHECK(check_parent(*parent_slab, out.parent_digest));
  if (out.changed && sources_.self_check) P2PW_CHECK(self_check(slab, frame.bytes, parent, now));
  return out;
}

// A parent that has rotted on this disk would give frames that decode here and nowhere else.
Status SlabWorker::check_parent(const Slab& slab, const Digest& found) const {
  if (sources_.known_parent == nullptr) return {};
  const auto& known = slab.id.is_bytes() ? sources_.known_parent->byte_slabs : sources_.known_parent->tensor_slabs;
  if (found == known[slab.id.index()]) return {};
  if (sources_.parent_damaged) sources_.parent_damaged(slab.id);
  const SlabReader& reader = *sources_.parent;
  const std::string kind = slab.id.is_bytes() ? "byte" : "tensor";
  return fail(ErrorCode::integrity, reader.directory().string() + "/" + place_of(reader.layout(), slab) +
                                        " (" + kind + " slab " + std::to_string(slab.id.index()) +
                                        "): the bytes are not those of its sealed version");
}

Status SlabWorker::self_check(const Slab& slab, const Bytes& frame, std::span<std::byte> parent, ByteView now) {
  auto differs = [&](const std::string& why) {
    return fail(ErrorCode::integrity, sources_.now->directory().string() + "/" +
                                          place_of(sources_.now->layout(), slab) + ": the frame " + why +
                                          "; this is a defect of the encoder, please report it");
  };
  ByteView decoded;
  Result<codec::Decoded> result = codec::Decoded{};
  if (slab.id.is_bytes()) {
    result = decoder_.decode_bytes(frame, parent, decoded_);
    decoded = decoded_;
  } else {
    std::span<std::byte> slot = parent_.get(slab.length);  // holds the parent, if there is one
    result = decoder_.decode_in_place(frame, slab.dtype, slot);
    decoded = slot;
  }
  if (!result) return differs("cannot be decoded (" + result.error().message + ")");
  if (decoded.size() != now.size() || std::memcmp(decoded.data(), now.data(), now.size()) != 0) {
    return differs("decodes to other bytes");
  }
  return {};
}

}  // namespace p2pw
