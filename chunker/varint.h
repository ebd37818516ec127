// Numbers in byte strings: LEB128, and a reader that never passes the end.
#pragma once

#include "protocol/ids.h"

namespace p2pw {

inline void put_varint(Bytes& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<std::byte>(value | 0x80));
  out.push_back(static_cast<std::byte>(value));
}

// Every call answers false, and reads nothing more, when the bytes do not hold what is asked for.
class ByteReader {
 public:
  explicit ByteReader(ByteView bytes) : bytes_(bytes) {}
  // Only the shortest form is taken, so a number has one encoding.
  bool varint(std::uint64_t& value) {
    value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (bytes_.empty()) return false;
      auto b = std::to_integer<std::uint64_t>(bytes_[0]);
      bytes_ = bytes_.subspan(1);
      if (shift == 63 && b > 1) return false;
      value |= (b & 0x7f) << shift;
      if (b < 0x80) return b != 0 || shift == 0;
    }
    return false;
  }
  bool u64(std::uint64_t& value) {  // little-endian
    ByteView raw;
    if (!bytes(8, raw)) return false;
    value = 0;
    for (std::size_t i = 8; i-- > 0;) value = value << 8 | std::to_integer<std::uint64_t>(raw[i]);
    return true;
  }
  bool bytes(std::size_t length, ByteView& out) {
    if (length > bytes_.size()) return false;
    out = bytes_.first(length);
    bytes_ = bytes_.subspan(length);
    return true;
  }
  bool text(std::size_t length, std::string& out) {
    ByteView raw;
    if (!bytes(length, raw)) return false;
    out = as_text(raw);
    return true;
  }
  template <class Blob>
  bool blob(Blob& out) {
    ByteView raw;
    if (!bytes(Blob::kSize, raw)) return false;
    out = *Blob::from(raw);
    return true;
  }
  bool done() const { return bytes_.empty(); }
  std::size_t left() const { return bytes_.size(); }

 private:
  ByteView bytes_;
};

inline void put_u64(Bytes& out, std::uint64_t value) {
  for (unsigned shift = 0; shift < 64; shift += 8) out.push_back(static_cast<std::byte>(value >> shift));
}
inline void put_bytes(Bytes& out, ByteView bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); }

}  // namespace p2pw
