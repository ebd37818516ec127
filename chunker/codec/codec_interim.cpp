// Stands in for the codec until it is there: zstd of the XOR with the parent. Correct, neither small nor fast.
#include <xxhash.h>
#include <zstd.h>

#include <cstring>

#include "chunker/codec/codec.h"
#include "protocol/limits.h"

namespace p2pw::codec {
namespace {

enum class Mode : std::uint8_t { xored = 1, whole = 2 };

struct Header {
  std::uint8_t format = kFrameFormat;
  Mode mode = Mode::xored;
  std::uint8_t dtype = 0;
  std::uint32_t length = 0;
  std::uint32_t elements = 0;
  std::uint32_t changed = 0;
} __attribute__((packed));

std::uint64_t count_changed(ByteView a, ByteView b, std::size_t width) {
  std::uint64_t changed = 0;
  for (std::size_t i = 0; i < b.size(); i += width) {
    changed += i + width > a.size() || std::memcmp(a.data() + i, b.data() + i, width) != 0;
  }
  return changed;
}

void append(Bytes& out, const Header& header, ByteView payload) {
  std::size_t start = out.size();
  out.resize(start + sizeof header + ZSTD_compressBound(payload.size()));
  std::memcpy(out.data() + start, &header, sizeof header);
  std::size_t n = ZSTD_compress(out.data() + start + sizeof header, out.size() - start - sizeof header, payload.data(),
                                payload.size(), 1);
  out.resize(start + sizeof header + n);
}

Result<Header> header_of(ByteView frame) {
  Header header;
  if (frame.size() < sizeof header) return fail(ErrorCode::malformed, "frame: cut short");
  std::memcpy(&header, frame.data(), sizeof header);
  if (header.format != kFrameFormat) {
    return fail(ErrorCode::unsupported, "frame: format " + std::to_string(header.format) + "; this build knows 1");
  }
  if (header.length > limits::kSlabBytes) return fail(ErrorCode::limit, "frame: slab too large");
  return header;
}

Status unpack(ByteView frame, std::span<std::byte> out) {
  ByteView payload = frame.subspan(sizeof(Header));
  std::size_t n = ZSTD_decompress(out.data(), out.size(), payload.data(), payload.size());
  if (ZSTD_isError(n) || n != out.size()) return fail(ErrorCode::malformed, "frame: damaged");
  return {};
}

}  // namespace

Digest digest_of(ByteView slab) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(slab.data(), slab.size()));
  Digest digest;
  std::memcpy(digest.data.data(), canonical.digest, 16);
  return digest;
}

struct SlabEncoder::State {
  Bytes xored;
};
SlabEncoder::SlabEncoder() : state_(std::make_unique<State>()) {}
SlabEncoder::~SlabEncoder() = default;
SlabEncoder::SlabEncoder(SlabEncoder&&) noexcept = default;

Encoded SlabEncoder::encode_delta(ByteView parent, ByteView now, Dtype dtype, Bytes& out) {
  Encoded encoded;
  encoded.digest = digest_of(now);
  encoded.elements = now.size() / element_bytes(dtype);
  if (parent.size() == now.size() && std::memcmp(parent.data(), now.data(), now.size()) == 0) return encoded;
  encoded.changed = true;
  encoded.changed_elements = count_changed(parent, now, element_bytes(dtype));
  state_->xored.assign(now.begin(), now.end());
  for (std::size_t i = 0; i < std::min(parent.size(), now.size()); ++i) state_->xored[i] ^= parent[i];
  append(out, {kFrameFormat, Mode::xored, static_cast<std::uint8_t>(dtype), static_cast<std::uint32_t>(now.size()),
               static_cast<std::uint32_t>(encoded.elements), static_cast<std::uint32_t>(encoded.changed_elements)},
         state_->xored);
  return encoded;
}

Encoded SlabEncoder::encode_anchor(ByteView now, Dtype dtype, Bytes& out) {
  Encoded encoded;
  encoded.changed = true;
  encoded.digest = digest_of(now);
  encoded.elements = encoded.changed_elements = now.size() / element_bytes(dtype);
  append(out, {kFrameFormat, Mode::whole, static_cast<std::uint8_t>(dtype), static_cast<std::uint32_t>(now.size()),
               static_cast<std::uint32_t>(encoded.elements), static_cast<std::uint32_t>(encoded.elements)},
         now);
  return encoded;
}

struct SlabDecoder::State {
  Bytes scratch;
};
SlabDecoder::SlabDecoder() : state_(std::make_unique<State>()) {}
SlabDecoder::~SlabDecoder() = default;
SlabDecoder::SlabDecoder(SlabDecoder&&) noexcept = default;

Result<Decoded> SlabDecoder::decode_in_place(ByteView frame, Dtype, std::span<std::byte> slab) {
  P2PW_TRY(Header header, header_of(frame));
  if (header.length != slab.size()) return fail(ErrorCode::malformed, "frame: of another slab");
  state_->scratch.resize(slab.size());
  P2PW_CHECK(unpack(frame, state_->scratch));
  for (std::size_t i = 0; i < slab.size(); ++i) {
    slab[i] = header.mode == Mode::xored ? slab[i] ^ state_->scratch[i] : state_->scratch[i];
  }
  return Decoded{digest_of(slab), header.changed};
}

Result<Decoded> SlabDecoder::decode_bytes(ByteView frame, ByteView parent, Bytes& out) {
  P2PW_TRY(Header header, header_of(frame));
  out.resize(header.length);
  P2PW_CHECK(unpack(frame, out));
  if (header.mode == Mode::xored) {
    for (std::size_t i = 0; i < std::min(parent.size(), out.size()); ++i) out[i] ^= parent[i];
  }
  return Decoded{digest_of(out), header.changed};
}

Result<FrameInfo> inspect_frame(ByteView frame) {
  P2PW_TRY(Header header, header_of(frame));
  return FrameInfo{header.mode == Mode::xored ? "xored" : "whole", header.elements, header.changed,
                   header.mode == Mode::xored};
}

}  // namespace p2pw::codec
