// Which way leads the standby slot to which version: a pure function of what the slots hold and which runs are known.
#pragma once

#include <memory>
#include <vector>

#include "daemon/core/rebuild_run.h"

namespace p2pw {

struct SlotView {
  Version version;       // whole, or patched from; 0: nothing of use
  bool whole = false;
};

enum class RebuildStart : std::uint8_t {
  nothing,  // there is nothing to do
  standby,  // from what the standby holds
  copy,     // from a copy of the active slot
  neighbours,  // from slabs of the neighbours' active slots, each at its version
  anchor,   // from nothing
};

struct RebuildPlan {
  RebuildStart start = RebuildStart::nothing;
  Version base;                                  // 0 for an anchor
  std::vector<std::shared_ptr<RebuildRun>> path;  // oldest first; empty: back to `base`
  Version target;
  std::size_t active_at = 0;  // path[0 .. active_at) lead up to what is active already

  bool same_way(const RebuildPlan& other) const {
    return start == other.start && base == other.base && target == other.target && path == other.path;
  }
};

// Of the ways that lead furthest the cheapest, by bytes that are not here yet and where they come from: an anchor usually
// comes over the WAN, everything else from the region.
inline constexpr std::uint64_t kFarWeight = 3;

// `offered`: the version whose table the neighbours have given; 0: none. `checkpoint_bytes`: what its slabs would cost.
// `runs`: in any order. `locked`: the target that work has begun for, 0 for none; it stays as long as it can be reached.
RebuildPlan plan_rebuild(const SlotView& standby, const SlotView& active,
                         const std::vector<std::shared_ptr<RebuildRun>>& runs, Version locked, Version offered = {},
                         std::uint64_t checkpoint_bytes = 0);

}  // namespace p2pw
