#include "daemon/core/rebuild_plan.h"

#include <algorithm>

namespace p2pw {
namespace {

using Runs = std::vector<std::shared_ptr<RebuildRun>>;

// Of two runs for the same step the sealed one, else the newer one: the older is dead or about to be.
bool better(const RebuildRun& a, const RebuildRun& b) {
  return std::pair(a.sealed().has_value(), a.version()) > std::pair(b.sealed().has_value(), b.version());
}

template <class Fits>
std::shared_ptr<RebuildRun> best(const Runs& runs, Fits fits) {
  std::shared_ptr<RebuildRun> found;
  for (const auto& run : runs) {
    if (!run->failed && fits(*run) && (found == nullptr || better(*run, *found))) found = run;
  }
  return found;
}

// Appends deltas from `version` on, as far as they go. Nothing can follow a version that is not sealed.
void follow(const Runs& runs, Version version, Runs& path) {
  for (;;) {
    auto next = best(runs, [&](const RebuildRun& r) {
      return !r.is_anchor() && r.open().parent == version && r.version() > version;
    });
    if (next == nullptr) return;
    path.push_back(next);
    if (!next->sealed()) return;
    version = next->version();
  }
}

// What is still to come for this way, weighted.
std::uint64_t cost_of(const RebuildPlan& way, std::uint64_t checkpoint_bytes) {
  std::uint64_t cost = way.start == RebuildStart::neighbours ? checkpoint_bytes : 0;
  for (const auto& run : way.path) cost += run->missing_bytes() * (run->is_anchor() ? kFarWeight : 1);
  return cost;
}

Version end_of(Version base, const Runs& path) { return path.empty() ? base : path.back()->version(); }

// Cuts the way at its target: what work has begun for; else the newest sealed version that is news; else the one in
// flight.
void choose_target(RebuildPlan& plan, Version active, Version locked) {
  std::size_t length = 0;
  for (std::size_t i = 0; i < plan.path.size(); ++i) {
    if (plan.path[i]->sealed() && plan.path[i]->version() > active) length = i + 1;
  }
  if (length == 0) length = plan.path.size();
  for (std::size_t i = 0; i < plan.path.size(); ++i) {
    if (locked > active && plan.path[i]->version() == locked) length = i + 1;
  }
  plan.path.resize(length);
  plan.target = end_of(plan.base, plan.path);
  plan.active_at = 0;
  while (plan.active_at < length && plan.path[plan.active_at]->version() <= active) ++plan.active_at;
}

}  // namespace

RebuildPlan plan_rebuild(const SlotView& standby, const SlotView& active, const Runs& runs, Version locked,
                         Version offered, std::uint64_t checkpoint_bytes) {
  std::vector<RebuildPlan> ways;  // preferred first
  if (standby.version.value() != 0) {
    RebuildPlan& way = ways.emplace_back();
    way.start = RebuildStart::standby;
    way.base = standby.version;
    follow(runs, way.base, way.path);
  }
  if (active.whole && active.version.value() != 0) {
    RebuildPlan& way = ways.emplace_back();
    way.start = RebuildStart::copy;
    way.base = active.version;
    follow(runs, way.base, way.path);
  }
  if (offered.value() != 0) {
    RebuildPlan& way = ways.emplace_back();
    way.start = RebuildStart::neighbours;
    way.base = offered;
    follow(runs, way.base, way.path);
  }
  if (auto anchor = best(runs, [](const RebuildRun& r) { return r.is_anchor(); })) {
    RebuildPlan& way = ways.emplace_back();
    way.start = RebuildStart::anchor;
    way.path.push_back(anchor);
    if (anchor->sealed()) follow(runs, anchor->version(), way.path);
  }

  RebuildPlan chosen;
  Version furthest;
  std::uint64_t cheapest = 0;
  for (RebuildPlan& way : ways) {
    Version end = end_of(way.base, way.path);
    std::uint64_t cost = cost_of(way, checkpoint_bytes);
    if (end > furthest || (end == furthest && end.value() != 0 && cost < cheapest)) {
      furthest = end;
      cheapest = cost;
      chosen = std::move(way);
    }
  }
  if (chosen.start == RebuildStart::nothing) return chosen;
  // The neighbours go on while their slabs are copied: what they give is of no use for an older target.
  choose_target(chosen, active.version, chosen.start == RebuildStart::neighbours ? Version() : locked);
  bool there = chosen.start == RebuildStart::standby && chosen.path.empty() && standby.whole;
  return there ? RebuildPlan{} : chosen;
}

}  // namespace p2pw
