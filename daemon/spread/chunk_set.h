// A set of chunks of one bundle, and its form on the wire: bit i of byte i/8, low bit first.
#pragma once

#include <boost/dynamic_bitset.hpp>
#include <string>

#include "protocol/ids.h"

namespace p2pw {

class ChunkSet {
 public:
  ChunkSet() = default;
  explicit ChunkSet(std::uint32_t chunks, bool full = false) : bits_(chunks) {
    if (full) bits_.set();
  }
  // Bits past `chunks` are ignored, missing ones are 0: a peer can send nonsense but not harm.
  static ChunkSet from_wire(std::string_view bits, std::uint32_t chunks);
  std::string to_wire() const;

  std::uint32_t size() const { return static_cast<std::uint32_t>(bits_.size()); }
  std::uint32_t count() const { return static_cast<std::uint32_t>(bits_.count()); }
  bool has(ChunkIndex i) const { return i.value() < bits_.size() && bits_.test(i.value()); }
  void add(ChunkIndex i) { bits_.set(i.value()); }
  void remove(ChunkIndex i) { bits_.reset(i.value()); }
  bool full() const { return bits_.all(); }
  bool none() const { return bits_.none(); }
  void operator|=(const ChunkSet& other) { bits_ |= other.bits_; }
  void operator-=(const ChunkSet& other) { bits_ -= other.bits_; }
  void operator&=(const ChunkSet& other) { bits_ &= other.bits_; }
  ChunkSet complement() const {
    ChunkSet out = *this;
    out.bits_.flip();
    return out;
  }
  // The first member at or after `from`, if any.
  std::optional<ChunkIndex> first(std::uint32_t from = 0) const {
    auto at = from == 0 ? bits_.find_first() : bits_.find_next(from - 1);
    if (at == boost::dynamic_bitset<>::npos) return std::nullopt;
    return ChunkIndex(static_cast<std::uint32_t>(at));
  }

 private:
  boost::dynamic_bitset<> bits_;
};

}  // namespace p2pw
