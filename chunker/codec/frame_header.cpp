#include "chunker/codec/frame_header.h"

#include <bit>
#include <string>

#include "chunker/codec/codec.h"
#include "protocol/limits.h"

namespace p2pw::codec {

void write_header(const FrameHeader& header, ByteWriter& out) {
  out.u8(kFrameFormat);
  out.u8(static_cast<std::uint32_t>(header.mode) | static_cast<std::uint32_t>(std::countr_zero(header.width)) << 4);
  out.varint(header.slab_bytes);
  out.varint(header.changed);
}

Result<FrameHeader> read_header(ByteReader& in) {
  const std::uint32_t format = in.u8();
  if (in.ok() && format != kFrameFormat) {
    return fail(ErrorCode::unsupported, "frame of format " + std::to_string(format) + ", this build knows format " +
                                            std::to_string(kFrameFormat) + "; update p2pw");
  }
  const std::uint32_t mode = in.u8();
  FrameHeader header;
  header.slab_bytes = in.varint();
  header.changed = in.varint();
  if (!in.ok()) return fail(ErrorCode::malformed, "frame ends inside its header");
  if ((mode & 0xF) > static_cast<std::uint32_t>(Mode::patch) || mode >> 4 > 3) {
    return fail(ErrorCode::malformed, "frame has the unknown mode " + std::to_string(mode));
  }
  header.mode = static_cast<Mode>(mode & 0xF);
  header.width = 1u << (mode >> 4);
  if (header.slab_bytes > limits::kSlabBytes) {
    return fail(ErrorCode::limit, "frame of a slab of " + std::to_string(header.slab_bytes) + " bytes, at most " +
                                      std::to_string(limits::kSlabBytes) + " are allowed");
  }
  if (header.slab_bytes % header.width != 0) return fail(ErrorCode::malformed, "frame ends its slab inside an element");
  if (header.changed > header.slab_bytes / header.width) {
    return fail(ErrorCode::malformed, "frame changes more elements than its slab has");
  }
  return header;
}

Result<FrameInfo> inspect_frame(ByteView frame) {
  ByteReader in(frame);
  P2PW_TRY(const FrameHeader header, read_header(in));
  static constexpr std::string_view kNames[] = {"raw", "sparse", "planes", "patch"};
  FrameInfo info;
  info.mode = kNames[static_cast<std::size_t>(header.mode)];
  info.elements = header.slab_bytes / header.width;
  info.changed_elements = header.changed;
  info.needs_parent = header.needs_parent();
  return info;
}

}  // namespace p2pw::codec
