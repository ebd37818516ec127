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

RebuildPlan plan_rebuild(const SlotView& standby, const SlotView& active, const Runs& runs, Version locked) {
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
  if (auto anchor = best(runs, [](const RebuildRun& r) { return r.is_anchor(); })) {
    RebuildPlan& way = ways.emplace_back();
    way.start = RebuildStart::anchor;
    way.path.push_back(anchor);
    if (anchor->sealed()) follow(runs, anchor->version(), way.path);
  }

  RebuildPlan chosen;
  Version furthest;
  for (RebuildPlan& way : ways) {
    Version end = end_of(way.base, way.path);
    if (end > furthest) {
      furthest = end;
      chosen = std::move(way);
    }
  }
  if (chosen.start == RebuildStart::nothing) return chosen;
  choose_target(chosen, active.version, locked);
  bool there = chosen.start == RebuildStart::standby && chosen.path.empty() && standby.whole;
  return there ? RebuildPlan{} : chosen;
}

}  // namespace p2pw
