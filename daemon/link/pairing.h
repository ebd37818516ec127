// Two daemons that dial each other at once end with exactly one control connection. The daemon with the
// smaller key decides; the other always yields to its offer. Rests on one rule of the dialling side: an offer
// is sent only while there is no link with that key and no other offer of ours to it. Pure.
#pragma once

#include <chrono>

#include "protocol/ids.h"

namespace p2pw {

// Heartbeats come every second: a link that has been silent for longer has probably been lost by the peer
// already.
inline constexpr std::chrono::milliseconds kDoubtfulSilence{1500};

struct PairSituation {
  bool own_key_is_smaller = false;
  bool linked = false;
  bool linked_by_us = false;  // we dialled the standing link
  std::chrono::milliseconds silent_for{0};
  bool offer_out = false;  // an offer of ours to this peer is unanswered
};

enum class PairVerdict {
  accept,
  replace,  // the peer has lost the standing link: drop it, accept this one
  park,     // our own offer decides; look again when it is settled
  refuse,   // the peer's offer crossed the one that made the standing link
};

// What to do with a proven peer's offer of a control connection.
inline PairVerdict judge_offer(const PairSituation& now) {
  if (now.linked) {
    const bool crossed = now.linked_by_us && now.own_key_is_smaller && now.silent_for < kDoubtfulSilence;
    return crossed ? PairVerdict::refuse : PairVerdict::replace;
  }
  return now.offer_out && now.own_key_is_smaller ? PairVerdict::park : PairVerdict::accept;
}

}  // namespace p2pw
