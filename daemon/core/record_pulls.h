// Whom to ask for records that were missed, and when: one linked peer after the other, one per period. Records are
// passed on as they come, but not to a peer whose row, or whose channels, were not known at that moment; and not every
// record is missed by a later one (a certificate, an anchor outside the chain). Asking costs about a hundred bytes, so the
// logs of linked nodes agree after as many periods as a node has links, whatever was lost.
//
// Pure: times and links are handed in. One thread at a time.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <vector>

#include "protocol/ids.h"

namespace p2pw {

class RecordPulls {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kPeriod{10};

  // Nobody: it is too early, or there is no link.
  std::optional<NodeKey> due(Time now, std::vector<NodeKey> links) {
    if (links.empty() || (asked_at_ && now - *asked_at_ < kPeriod)) return std::nullopt;
    asked_at_ = now;
    std::ranges::sort(links);
    const auto next = last_ ? std::ranges::upper_bound(links, *last_) : links.begin();
    last_ = next == links.end() ? links.front() : *next;
    return last_;
  }

 private:
  std::optional<Time> asked_at_;
  std::optional<NodeKey> last_;
};

}  // namespace p2pw
