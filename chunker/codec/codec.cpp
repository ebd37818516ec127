#include "chunker/codec/codec.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "chunker/codec/frame_header.h"
#include "chunker/codec/planes.h"
#include "chunker/codec/slab_hash.h"
#include "chunker/codec/sparse.h"
#include "chunker/codec/zstd_coder.h"
#include "protocol/limits.h"

namespace p2pw::codec {
namespace {

// Elements of a slab whose size is no whole number of them (only a careless caller's) are single bytes.
ElementModel model_for(Dtype dtype, std::size_t bytes) {
  const ElementModel model = model_of(dtype);
  return bytes % model.width == 0 ? model : ElementModel{};
}

}  // namespace

struct SlabEncoder::State {
  SlabHash hash, parent_hash;
  SparseEncoder sparse;
  PlanesCoder planes;
  ZstdCoder zstd;
  Bytes body;  // of the second candidate

  static std::size_t begin(const FrameHeader& header, Bytes& out) {
    const std::size_t start = out.size();
    ByteWriter writer(out);
    write_header(header, writer);
    return start;
  }

  // Appends planes, or raw where planes are not smaller.
  void put_whole(ByteView now, const ElementModel& model, std::uint64_t changed, Bytes& out) {
    FrameHeader header{Mode::planes, model.width, now.size(), changed};
    const std::size_t start = begin(header, out);
    const std::size_t body_start = out.size();
    planes.encode(now, model, out);
    if (out.size() - body_start < now.size()) return;
    out.resize(start);
    header.mode = Mode::raw;
    begin(header, out);
    out.insert(out.end(), now.begin(), now.end());
  }

  void put_patch(ByteView parent, ByteView now, Bytes& out) {
    FrameHeader header{Mode::patch, 1, now.size(), now.size()};
    const std::size_t start = begin(header, out);
    if (zstd.patch(parent, now, out)) return;
    out.resize(start);
    header.mode = Mode::raw;
    begin(header, out);
    out.insert(out.end(), now.begin(), now.end());
  }
};

SlabEncoder::SlabEncoder() : state_(std::make_unique<State>()) {}
SlabEncoder::~SlabEncoder() = default;
SlabEncoder::SlabEncoder(SlabEncoder&&) noexcept = default;

Encoded SlabEncoder::encode_delta(ByteView parent, ByteView now, Dtype dtype, Bytes& out, Digest* parent_digest) {
  Encoded result;
  const ElementModel model = model_for(dtype, now.size());
  result.elements = now.size() / model.width;
  if (dtype == Dtype::bytes || parent.size() != now.size()) {
    result.digest = digest_of(now);
    result.changed = parent.size() != now.size() || (!now.empty() && std::memcmp(parent.data(), now.data(), now.size()) != 0);
    if (parent_digest != nullptr) *parent_digest = result.changed ? digest_of(parent) : result.digest;
    if (!result.changed) return result;
    result.changed_elements = now.size();
    state_->put_patch(parent, now, out);
    return result;
  }
  state_->hash.reset();
  SlabHash* parent_hash = parent_digest != nullptr ? &state_->parent_hash : nullptr;
  if (parent_hash != nullptr) parent_hash->reset();
  result.changed_elements = state_->sparse.compare(parent, now, model, state_->hash, parent_hash);
  result.digest = state_->hash.finish();
  result.changed = result.changed_elements != 0;
  if (parent_hash != nullptr) *parent_digest = result.changed ? parent_hash->finish() : result.digest;
  if (!result.changed) return result;
  const std::size_t start = out.size();
  State::begin({Mode::sparse, model.width, now.size(), result.changed_elements}, out);
  state_->sparse.put(out);
  if (out.size() - start > now.size() / 2) {
    Bytes& body = state_->body;
    body.clear();
    state_->put_whole(now, model, result.changed_elements, body);
    if (body.size() < out.size() - start) {
      out.resize(start);
      out.insert(out.end(), body.begin(), body.end());
    }
  }
  return result;
}

Encoded SlabEncoder::encode_anchor(ByteView now, Dtype dtype, Bytes& out) {
  Encoded result;
  result.changed = true;
  result.digest = digest_of(now);
  const ElementModel model = model_for(dtype, now.size());
  result.elements = result.changed_elements = now.size() / model.width;
  if (dtype == Dtype::bytes) {
    state_->put_patch({}, now, out);
  } else {
    state_->put_whole(now, model, result.changed_elements, out);
  }
  return result;
}

struct SlabDecoder::State {
  SlabHash hash;
  SparseDecoder sparse;
  PlanesCoder planes;
  ZstdCoder zstd;
};

SlabDecoder::SlabDecoder() : state_(std::make_unique<State>()) {}
SlabDecoder::~SlabDecoder() = default;
SlabDecoder::SlabDecoder(SlabDecoder&&) noexcept = default;

Result<Decoded> SlabDecoder::decode_in_place(ByteView frame, Dtype dtype, std::span<std::byte> slab) {
  ByteReader in(frame);
  P2PW_TRY(const FrameHeader header, read_header(in));
  const ElementModel model = model_for(dtype, slab.size());
  if (header.slab_bytes != slab.size()) {
    return fail(ErrorCode::malformed, "frame is of a slab of " + std::to_string(header.slab_bytes) +
                                          " bytes, the slab at hand has " + std::to_string(slab.size()));
  }
  switch (header.mode) {
    case Mode::raw:
      if (in.left() != slab.size()) return fail(ErrorCode::malformed, "raw frame is not as long as its slab");
      std::copy(in.rest().begin(), in.rest().end(), slab.begin());
      break;
    case Mode::sparse:
      if (header.width != model.width) return fail(ErrorCode::malformed, "frame is of another element width");
      state_->hash.reset();
      P2PW_CHECK(state_->sparse.decode(in.rest(), model, header.changed, slab, state_->hash));
      return Decoded{state_->hash.finish(), header.changed};
    case Mode::planes:
      if (header.width != model.width) return fail(ErrorCode::malformed, "frame is of another element width");
      P2PW_CHECK(state_->planes.decode(in.rest(), model, slab));
      break;
    case Mode::patch: {
      const Bytes parent(slab.begin(), slab.end());
      P2PW_CHECK(state_->zstd.unpatch(parent, in.rest(), slab));
      break;
    }
  }
  return Decoded{digest_of(slab), header.changed};
}

Result<Decoded> SlabDecoder::decode_bytes(ByteView frame, ByteView parent, Bytes& out) {
  ByteReader in(frame);
  P2PW_TRY(const FrameHeader header, read_header(in));
  out.resize(header.slab_bytes);
  if (header.mode == Mode::patch) {
    P2PW_CHECK(state_->zstd.unpatch(parent, in.rest(), out));
  } else if (header.mode == Mode::raw) {
    if (in.left() != out.size()) return fail(ErrorCode::malformed, "raw frame is not as long as its slab");
    std::copy(in.rest().begin(), in.rest().end(), out.begin());
  } else {
    return fail(ErrorCode::malformed, "frame of a byte slab has a mode for tensors");
  }
  return Decoded{digest_of(out), header.changed};
}

}  // namespace p2pw::codec
