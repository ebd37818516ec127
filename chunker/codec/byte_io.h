// Bounds-checked reading and plain writing of the small fields of a frame. A reader that ran past its end stays failed
// and returns zeros, so that a parser may check once after several fields.
#pragma once

#include <cstdint>

#include "protocol/ids.h"

namespace p2pw::codec {

class ByteWriter {
 public:
  explicit ByteWriter(Bytes& out) : out_(out) {}
  void u8(std::uint32_t value) { out_.push_back(static_cast<std::byte>(value & 0xFF)); }
  // LEB128: seven bits a byte, the lowest first; the top bit says that more follow.
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) u8(static_cast<std::uint32_t>(value | 0x80));
    u8(static_cast<std::uint32_t>(value));
  }
  void bytes(ByteView view) { out_.insert(out_.end(), view.begin(), view.end()); }

 private:
  Bytes& out_;
};

class ByteReader {
 public:
  explicit ByteReader(ByteView in) : in_(in) {}

  std::uint32_t u8() {
    if (at_ >= in_.size()) {
      ok_ = false;
      return 0;
    }
    return static_cast<std::uint32_t>(in_[at_++]);
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 63; shift += 7) {
      const std::uint32_t byte = u8();
      value |= std::uint64_t{byte & 0x7F} << shift;
      if (byte < 0x80) return ok_ ? value : 0;
    }
    ok_ = false;
    return 0;
  }
  ByteView bytes(std::uint64_t count) {
    if (count > left()) {
      ok_ = false;
      return {};
    }
    const ByteView view = in_.subspan(at_, static_cast<std::size_t>(count));
    at_ += static_cast<std::size_t>(count);
    return view;
  }
  ByteView rest() const { return in_.subspan(at_); }
  std::size_t left() const { return in_.size() - at_; }
  bool ok() const { return ok_; }
  bool finished() const { return ok_ && at_ == in_.size(); }

 private:
  ByteView in_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace p2pw::codec
