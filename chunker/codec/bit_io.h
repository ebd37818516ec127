// Strings of bits, the lowest bit of each byte first.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

#include "protocol/ids.h"

namespace p2pw::codec {

// Unaligned little-endian access, as the format has it.
template <class T>
inline T load_le(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  if constexpr (std::endian::native == std::endian::big && sizeof(T) > 1) {
    T turned = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) turned = static_cast<T>(turned << 8 | (value >> (8 * i) & 0xFF));
    return turned;
  }
  return value;
}
template <class T>
inline void store_le(void* to, T value) {
  if constexpr (std::endian::native == std::endian::big && sizeof(T) > 1) {
    T turned = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) turned = static_cast<T>(turned << 8 | (value >> (8 * i) & 0xFF));
    value = turned;
  }
  std::memcpy(to, &value, sizeof value);
}

// A growing string of bits. Room is made ahead for many values at once, so that put() itself never checks.
class BitWriter {
 public:
  void clear() { count_ = 0; }
  // REQUIRES before put(): room for `bits` more.
  void reserve(std::uint64_t bits) {
    const std::size_t need = static_cast<std::size_t>((count_ + bits) / 8 + 80);
    if (bytes_.size() < need) bytes_.resize(need + need / 2);
  }
  // REQUIRES: width <= 56, value < 2^width.
  void put(std::uint64_t value, unsigned width) {
    const std::size_t at = static_cast<std::size_t>(count_ >> 3);
    const unsigned shift = static_cast<unsigned>(count_ & 7);
    const std::uint64_t low = shift == 0 ? 0 : bytes_[at] & ((1u << shift) - 1);
    store_le(bytes_.data() + at, low | value << shift);
    count_ += width;
  }
  void put_wide(std::uint64_t value, unsigned width) {
    if (width > 32) {
      put(value & 0xFFFF'FFFF, 32);
      value >>= 32;
      width -= 32;
    }
    put(value, width);
  }
  // Exp-Golomb: 2^order values of the shortest code, twice as many of each longer one.
  void put_golomb(std::uint64_t value, unsigned order) {
    reserve(128);
    const std::uint64_t shifted = value + (std::uint64_t{1} << order);
    const unsigned extra = static_cast<unsigned>(std::bit_width(shifted)) - 1 - order;
    put(std::uint64_t{1} << extra, extra + 1);
    put_wide(shifted & ((std::uint64_t{1} << (extra + order)) - 1), extra + order);
  }
  std::uint64_t count() const { return count_; }
  // For those that write many bits at once: into the room that reserve() made, from count() on.
  std::uint8_t* data() { return bytes_.data(); }
  void set_count(std::uint64_t count) { count_ = count; }
  std::size_t byte_count() const { return static_cast<std::size_t>((count_ + 7) / 8); }
  ByteView bytes() const { return std::as_bytes(std::span(bytes_.data(), byte_count())); }

 private:
  std::vector<std::uint8_t> bytes_;
  std::uint64_t count_ = 0;
};

// Reads what BitWriter wrote. The caller asks left() before it takes many values; get() itself never checks.
// REQUIRES: 64 readable bytes after the last one.
class BitReader {
 public:
  BitReader() = default;
  BitReader(const std::uint8_t* padded, std::size_t bytes) : at_(padded), end_(std::uint64_t{bytes} * 8) {}
  std::uint64_t left() const { return end_ - count_; }
  // REQUIRES: width <= 56, width <= left().
  std::uint64_t get(unsigned width) {
    const std::uint64_t word = load_le<std::uint64_t>(at_ + (count_ >> 3)) >> (count_ & 7);
    count_ += width;
    return word & ((std::uint64_t{1} << width) - 1);
  }
  std::uint64_t get_wide(unsigned width) {
    if (width <= 32) return get(width);
    const std::uint64_t low = get(32);
    return low | get(width - 32) << 32;
  }
  // False when the string ends before the value, or the value does not fit 63 bits.
  bool get_golomb(unsigned order, std::uint64_t& value) {
    unsigned extra = 0;
    while (true) {
      if (left() == 0 || extra + order > 62) return false;
      if (get(1) != 0) break;
      ++extra;
    }
    if (left() < extra + order) return false;
    value = ((std::uint64_t{1} << (extra + order)) | get_wide(extra + order)) - (std::uint64_t{1} << order);
    return true;
  }
  std::uint64_t count() const { return count_; }
  const std::uint8_t* data() const { return at_; }
  void set_count(std::uint64_t count) { count_ = count; }

 private:
  const std::uint8_t* at_ = nullptr;
  std::uint64_t end_ = 0, count_ = 0;
};

}  // namespace p2pw::codec
