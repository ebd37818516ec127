// Who takes a chunk from whom first. A chunk that comes over a link is announced by one node to all its neighbours at the
// same moment; if all of them took it from that one, its cable would carry as many copies as it has neighbours. So:
//
// - The first neighbour that announces a chunk is not asked for it yet; the second one is, whoever it is.
// - Whoever has a new chunk announces it twice to kFan of the neighbours that lack it, which come forward with it in turn,
//   and after kPatience to all that still lack it: a second announcement by the same neighbour counts as a second one.
//
// So a chunk leaves a gateway kFan times, and the rest is carried by all nodes alike. With up to kFan neighbours nothing
// changes. Pure; one for each torrent.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "protocol/ids.h"

namespace p2pw {

class HaveGate {
 public:
  static constexpr std::size_t kFan = 2;
  static constexpr std::chrono::milliseconds kPatience{500};

  explicit HaveGate(std::uint32_t chunks) : heard_(chunks, false) {}

  // A neighbour announces a chunk; `again`: it has done so before. True: it may be asked.
  bool opens(ChunkIndex chunk, bool again, std::size_t neighbours) {
    if (chunk.value() >= heard_.size()) return true;  // libtorrent judges it
    const bool known = heard_[chunk.value()] || again || neighbours <= kFan;
    heard_[chunk.value()] = true;
    return known;
  }
  // A neighbour that connects has it.
  void known(ChunkIndex chunk) {
    if (chunk.value() < heard_.size()) heard_[chunk.value()] = true;
  }
  void all_known() { heard_.assign(heard_.size(), true); }

  // Which of `lacking` neighbours, in a fixed order, are told twice at once: the first of how many, from there on around.
  static std::size_t first_told(ChunkIndex chunk, std::size_t lacking) {
    return lacking == 0 ? 0 : chunk.value() * kFan % lacking;
  }

 private:
  std::vector<bool> heard_;
};

}  // namespace p2pw
