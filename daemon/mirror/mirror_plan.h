// When a node turns to the mirror: pure functions of times and places.
//
// Peers come first: the mirror is asked only for what nobody has given for a while. Of several nodes that could ask, the
// first in line does so at once and the others later in turn, by which time the first one has passed it on.
#pragma once

#include <algorithm>
#include <chrono>

#include "daemon/spread/intake.h"
#include "protocol/ids.h"

namespace p2pw {

struct MirrorPatience {
  std::chrono::milliseconds records{5000};      // without a sealed version, or without a fresh head
  std::chrono::milliseconds meta{3000};         // it is asked for on the links meanwhile
  std::chrono::milliseconds chunks{2000};       // there is nobody outside the region
  std::chrono::milliseconds starved{6000};      // there is, and nothing at all comes from there
  std::chrono::milliseconds region_turn{25000};  // for each region that is to look first when all of them starve
  std::chrono::milliseconds trainer{60000};     // the trainer lives
  std::chrono::milliseconds slab{15000};        // damaged here, and no neighbour has given it
  std::chrono::milliseconds claim{15000};       // a neighbour is to take the bundle in and nothing comes
  std::chrono::milliseconds turn{2000};         // for each place in the line
  std::chrono::milliseconds poll{30000};        // looks again whether there is news
  std::chrono::milliseconds first_poll{10000};  // the same while no version is known at all
  std::chrono::milliseconds write_turn{3000}, write_most{60000};
  std::chrono::minutes refused{10};        // an object that is not what the publisher signed
  std::chrono::milliseconds again{10000};  // one that could not be had
  std::chrono::minutes probe{60};          // whether it can still be read and written
};

// What has been wanted since `since` may be taken from the mirror by the node at this place in the line.
inline bool turn_has_come(SteadyTime now, SteadyTime since, std::chrono::milliseconds patience, std::size_t place,
                          std::chrono::milliseconds turn) {
  return now - since >= patience + turn * static_cast<int>(std::min<std::size_t>(place, 100));
}

// For chunks of a bundle that this node is to take in. When regions have lost everything at once, the first of
// them reads, and the others get it from there.
inline std::chrono::milliseconds chunk_patience(const Intake::Hope& hope, const MirrorPatience& patience) {
  if (!hope.peers) return patience.chunks;
  auto wait = patience.starved;
  if (hope.trainer) wait += patience.trainer;
  return wait + patience.region_turn * static_cast<int>(std::min<std::size_t>(hope.regions_before, 100));
}

// For a bundle that a neighbour is to take in.
inline std::chrono::milliseconds claim_patience(const Intake::Hope& hope, const MirrorPatience& patience) {
  return hope.peers ? patience.claim + chunk_patience(hope, patience) : patience.claim;
}

// A writer at this place waits so long after it has something to write; those before it have most likely done it then.
inline std::chrono::milliseconds write_delay(std::size_t place, const MirrorPatience& patience) {
  return std::min(patience.write_most, patience.write_turn * static_cast<int>(std::min<std::size_t>(place, 1000)));
}

// A mirror that fails is left alone for longer each time.
class MirrorBackoff {
 public:
  static constexpr std::chrono::seconds kFirst{2}, kMost{60};
  bool may_try(SteadyTime now) const { return now >= until_; }
  void succeeded() {
    pause_ = kFirst;
    until_ = {};
  }
  void failed(SteadyTime now) {
    if (now < until_) return;  // of several calls that failed together one counts
    until_ = now + pause_;
    pause_ = std::min<std::chrono::seconds>(2 * pause_, kMost);
  }

 private:
  SteadyTime until_{};
  std::chrono::seconds pause_ = kFirst;
};

}  // namespace p2pw
