// Strong types for everything that is counted, named or addressed, so that a chunk index is never taken for a frame
// index and a key never for a hash. All are plain values: copy freely, compare, use as keys in maps.
#pragma once

#include <array>
#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/result.h"

namespace p2pw {

using Bytes = std::vector<std::byte>;
using ByteView = std::span<const std::byte>;

inline ByteView as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline std::string_view as_text(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A number with a meaning. Arithmetic is written out with value(), so that mixing meanings shows.
template <class Tag, class Rep>
class Number {
 public:
  using rep = Rep;
  constexpr Number() = default;
  constexpr explicit Number(Rep value) : value_(value) {}
  constexpr Rep value() const { return value_; }
  constexpr Number next() const { return Number(static_cast<Rep>(value_ + 1)); }
  constexpr auto operator<=>(const Number&) const = default;

 private:
  Rep value_ = 0;
};

using Version = Number<struct VersionTag, std::uint64_t>;          // 0 = none; a channel starts at 1
using BundleIndex = Number<struct BundleIndexTag, std::uint32_t>;  // within one run of a version
using ChunkIndex = Number<struct ChunkIndexTag, std::uint32_t>;    // within one bundle
using FrameIndex = Number<struct FrameIndexTag, std::uint32_t>;    // within one bundle
using Epoch = Number<struct EpochTag, std::uint64_t>;              // of a lease; a higher one fences a lower one

// A slab of one checkpoint. Byte slabs (the file table, verbatim headers, side files) and tensor slabs are numbered
// apart, so that tensor slabs keep their numbers when a side file grows.
class SlabId {
 public:
  static constexpr std::uint32_t kByteSpace = 0x8000'0000u;
  constexpr SlabId() = default;
  constexpr explicit SlabId(std::uint32_t raw) : raw_(raw) {}
  static constexpr SlabId tensor(std::uint32_t index) { return SlabId(index); }
  static constexpr SlabId bytes(std::uint32_t index) { return SlabId(index | kByteSpace); }
  constexpr bool is_bytes() const { return (raw_ & kByteSpace) != 0; }
  constexpr std::uint32_t index() const { return raw_ & ~kByteSpace; }
  constexpr std::uint32_t raw() const { return raw_; }
  constexpr auto operator<=>(const SlabId&) const = default;

 private:
  std::uint32_t raw_ = 0;
};

// A fixed number of opaque bytes.
template <class Tag, std::size_t N>
struct Blob {
  static constexpr std::size_t kSize = N;
  std::array<std::uint8_t, N> data{};

  auto operator<=>(const Blob&) const = default;
  ByteView view() const { return std::as_bytes(std::span(data)); }
  std::span<std::byte> bytes() { return std::as_writable_bytes(std::span(data)); }
  std::string_view text() const { return {reinterpret_cast<const char*>(data.data()), N}; }
  bool is_zero() const {
    for (auto b : data) {
      if (b != 0) return false;
    }
    return true;
  }
  std::string hex() const;
  std::string short_hex() const { return hex().substr(0, 8); }
  // Nothing unless the input has exactly N bytes (2 N hex digits).
  static std::optional<Blob> from(ByteView bytes) {
    if (bytes.size() != N) return std::nullopt;
    Blob blob;
    std::memcpy(blob.data.data(), bytes.data(), N);
    return blob;
  }
  static std::optional<Blob> from(std::string_view text) { return from(as_bytes(text)); }
  static std::optional<Blob> from_hex(std::string_view hex);
};

using Sha256 = Blob<struct Sha256Tag, 32>;          // any SHA-256 that is not one of the ids below
using ChunkRoot = Blob<struct ChunkRootTag, 32>;    // BEP 52 piece root: the content address of a chunk
using BundleId = Blob<struct BundleIdTag, 32>;      // SHA-256 of the signed bytes of a bundle record
using RunId = Blob<struct RunIdTag, 32>;            // SHA-256 of the signed bytes of an `open` record
using SealHash = Blob<struct SealHashTag, 32>;      // SHA-256 of the signed bytes of a `seal` record; zero = no seal yet
using LayoutHash = Blob<struct LayoutHashTag, 32>;  // see chunker/layout.h
using Digest = Blob<struct DigestTag, 16>;          // XXH3-128 of a slab, canonical (big-endian) form
using NodeKey = Blob<struct NodeKeyTag, 32>;        // Ed25519 public key of a daemon
using PublicKey = Blob<struct PublicKeyTag, 32>;    // Ed25519 public key of a publisher or of its online delegate
using KeyId = Blob<struct KeyIdTag, 8>;             // minisign key id
using Salt = Blob<struct SaltTag, 32>;              // random, one for each run
using SecretId = Blob<struct SecretIdTag, 8>;       // names a fleet secret

enum class Kind : std::uint8_t { anchor = 1, delta = 2 };
std::string_view name_of(Kind kind);  // "anchor", "delta"

// Names that people choose and that become parts of paths and metrics: 1 to 64 characters of a-z 0-9 . _ -, starting
// with a letter or digit. Only parse() makes one.
template <class Tag>
class Name {
 public:
  Name() = default;  // the empty name: "not set"
  static Result<Name> parse(std::string_view text);
  const std::string& str() const { return text_; }
  bool empty() const { return text_.empty(); }
  auto operator<=>(const Name&) const = default;

 private:
  explicit Name(std::string text) : text_(std::move(text)) {}
  std::string text_;
};

using Channel = Name<struct ChannelTag>;
using Region = Name<struct RegionTag>;

// Time as it is written in records and messages: milliseconds since the Unix epoch, UTC.
using WallTime = std::chrono::time_point<std::chrono::system_clock, std::chrono::milliseconds>;
inline std::uint64_t to_millis(WallTime t) { return static_cast<std::uint64_t>(t.time_since_epoch().count()); }
inline WallTime from_millis(std::uint64_t ms) {
  return WallTime(std::chrono::milliseconds(static_cast<std::int64_t>(ms)));
}

std::string to_hex(ByteView bytes);
std::optional<Bytes> from_hex(std::string_view hex);

template <class Tag, std::size_t N>
std::string Blob<Tag, N>::hex() const {
  return to_hex(view());
}
template <class Tag, std::size_t N>
std::optional<Blob<Tag, N>> Blob<Tag, N>::from_hex(std::string_view hex) {
  auto bytes = p2pw::from_hex(hex);
  return bytes ? from(ByteView(*bytes)) : std::nullopt;
}

}  // namespace p2pw

template <class Tag, class Rep>
struct std::hash<p2pw::Number<Tag, Rep>> {
  std::size_t operator()(p2pw::Number<Tag, Rep> n) const { return std::hash<Rep>()(n.value()); }
};
template <>
struct std::hash<p2pw::SlabId> {
  std::size_t operator()(p2pw::SlabId s) const { return std::hash<std::uint32_t>()(s.raw()); }
};
template <class Tag, std::size_t N>
struct std::hash<p2pw::Blob<Tag, N>> {
  std::size_t operator()(const p2pw::Blob<Tag, N>& b) const {
    std::size_t h = 0;  // the contents are hashes, keys or random: any 8 bytes are a good hash
    std::memcpy(&h, b.data.data(), std::min(sizeof h, N));
    return h;
  }
};
template <class Tag>
struct std::hash<p2pw::Name<Tag>> {
  std::size_t operator()(const p2pw::Name<Tag>& n) const { return std::hash<std::string>()(n.str()); }
};
