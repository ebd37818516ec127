#include "chunker/codec/planes.h"

#include <bit>
#include <cstring>

namespace p2pw::codec {
namespace {

template <class T>
void split(ByteView now, bool turn, unsigned plane, Bytes& out) {
  const std::size_t count = now.size() / sizeof(T);
  out.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    T bits;
    std::memcpy(&bits, now.data() + i * sizeof(T), sizeof bits);
    if (turn) bits = std::rotl(bits, 1);
    out[i] = static_cast<std::byte>(bits >> (8 * plane) & 0xFF);
  }
}

template <class T>
void join(ByteView in, bool turn, unsigned plane, std::span<std::byte> slab) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    T bits = 0;
    if (plane != 0) std::memcpy(&bits, slab.data() + i * sizeof(T), sizeof bits);
    bits = static_cast<T>(bits | static_cast<T>(static_cast<T>(in[i]) << (8 * plane)));
    if (turn && plane + 1 == sizeof(T)) bits = std::rotr(bits, 1);
    std::memcpy(slab.data() + i * sizeof(T), &bits, sizeof bits);
  }
}

}  // namespace

void PlanesCoder::encode(ByteView now, const ElementModel& model, ZstdCoder& zstd, Bytes& out) {
  ByteWriter writer(out);
  for (unsigned plane = 0; plane < model.width; ++plane) {
    switch (model.width) {
      case 1: split<std::uint8_t>(now, model.is_float, plane, plane_); break;
      case 2: split<std::uint16_t>(now, model.is_float, plane, plane_); break;
      case 4: split<std::uint32_t>(now, model.is_float, plane, plane_); break;
      default: split<std::uint64_t>(now, model.is_float, plane, plane_); break;
    }
    packed_.clear();
    if (zstd.compress(plane_, packed_)) {
      writer.varint(packed_.size() + 1);
      writer.bytes(packed_);
    } else {
      writer.varint(0);
      writer.bytes(plane_);
    }
  }
}

Status PlanesCoder::decode(ByteReader& in, const ElementModel& model, ZstdCoder& zstd, std::span<std::byte> slab) {
  const std::size_t count = slab.size() / model.width;
  for (unsigned plane = 0; plane < model.width; ++plane) {
    const std::uint64_t packed = in.varint();
    ByteView bytes = in.bytes(packed == 0 ? count : packed - 1);
    if (!in.ok()) return fail(ErrorCode::malformed, "frame ends inside a plane");
    if (packed != 0) {
      plane_.resize(count);
      P2PW_CHECK(zstd.unpatch({}, bytes, plane_));
      bytes = plane_;
    }
    switch (model.width) {
      case 1: join<std::uint8_t>(bytes, model.is_float, plane, slab); break;
      case 2: join<std::uint16_t>(bytes, model.is_float, plane, slab); break;
      case 4: join<std::uint32_t>(bytes, model.is_float, plane, slab); break;
      default: join<std::uint64_t>(bytes, model.is_float, plane, slab); break;
    }
  }
  if (!in.finished()) return fail(ErrorCode::malformed, "frame goes on after its last plane");
  return {};
}

}  // namespace p2pw::codec
