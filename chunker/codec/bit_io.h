// Strings of bits, the lowest bit of each byte first.
#pragma once

#include <bit>
#include <cstdint>

#include "protocol/ids.h"

namespace p2pw::codec {

class BitWriter {
 public:
  explicit BitWriter(Bytes& out) : out_(out) {}
  // REQUIRES: count <= 32, value < 2^count.
  void put(std::uint64_t value, unsigned count) {
    word_ |= value << fill_;
    fill_ += count;
    for (; fill_ >= 8; fill_ -= 8, word_ >>= 8) out_.push_back(static_cast<std::byte>(word_ & 0xFF));
  }
  void put_wide(std::uint64_t value, unsigned count) {
    if (count > 32) {
      put(value & 0xFFFF'FFFF, 32);
      put(value >> 32, count - 32);
    } else {
      put(value, count);
    }
  }
  void put_unary(std::uint64_t value) {
    for (; value >= 32; value -= 32) put(0, 32);
    put(std::uint64_t{1} << value, static_cast<unsigned>(value) + 1);
  }
  void finish() {
    if (fill_ > 0) out_.push_back(static_cast<std::byte>(word_ & 0xFF));
    word_ = 0;
    fill_ = 0;
  }

 private:
  Bytes& out_;
  std::uint64_t word_ = 0;
  unsigned fill_ = 0;
};

class BitReader {
 public:
  explicit BitReader(ByteView in) : in_(in) {}
  std::uint64_t get(unsigned count) {
    while (fill_ < count) {
      if (at_ == in_.size()) {
        ok_ = false;
        return 0;
      }
      word_ |= static_cast<std::uint64_t>(in_[at_++]) << fill_;
      fill_ += 8;
    }
    const std::uint64_t value = word_ & ((std::uint64_t{1} << count) - 1);
    word_ >>= count;
    fill_ -= count;
    return value;
  }
  std::uint64_t get_wide(unsigned count) {
    if (count <= 32) return get(count);
    const std::uint64_t low = get(32);
    return low | get(count - 32) << 32;
  }
  std::uint64_t get_unary() {
    std::uint64_t value = 0;
    while (ok_ && get(1) == 0) ++value;
    return value;
  }
  std::size_t used() const { return at_; }
  bool ok() const { return ok_; }

 private:
  ByteView in_;
  std::size_t at_ = 0;
  std::uint64_t word_ = 0;
  unsigned fill_ = 0;
  bool ok_ = true;
};

}  // namespace p2pw::codec
