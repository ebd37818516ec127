#include "daemon/core/retention.h"

#include <algorithm>

namespace p2pw {
namespace {

std::string version_text(Version version) { return "version " + std::to_string(version.value()); }

// The way from nothing: the newest anchor that is all here. None: the newest that is sealed, it may still come.
const RetainedRun* start_of_lineage(const std::vector<RetainedRun>& runs) {
  const RetainedRun* best = nullptr;
  for (const RetainedRun& run : runs) {
    if (run.kind != Kind::anchor || run.state != RunState::sealed) continue;
    auto rank = [](const RetainedRun& r) { return std::pair(r.complete, r.version); };
    if (best == nullptr || rank(run) > rank(*best)) best = &run;
  }
  return best;
}

// The versions above this one are the last few.
Version last_few(const std::vector<RetainedRun>& runs, std::size_t count) {
  std::vector<Version> sealed;
  for (const RetainedRun& run : runs) {
    if (run.state == RunState::sealed && !run.again) sealed.push_back(run.version);
  }
  std::sort(sealed.begin(), sealed.end());
  return sealed.size() <= count ? Version() : sealed[sealed.size() - count - 1];
}

}  // namespace

std::vector<Verdict> retain(const std::vector<RetainedRun>& runs, const RetentionFacts& facts) {
  const RetainedRun* anchor = facts.keeper ? start_of_lineage(runs) : nullptr;
  Version few = last_few(runs, facts.kept_versions);
  const Need* neediest = nullptr;
  for (const Need& need : facts.needs) {
    if (neediest == nullptr || need.above < neediest->above) neediest = &need;
  }
  std::vector<Verdict> verdicts;
  for (const RetainedRun& run : runs) {
    bool chain = !run.again;
    Verdict v;
    if (run.needed && run.state != RunState::dead) {
      v.why = "a slot of this node has yet to pass it";
    } else if (run.state == RunState::dead) {
      v = {false, "its seed ended before the seal"};
    } else if (run.state == RunState::open) {
      v.why = "in flight";
    } else if (anchor != nullptr && (run.id == anchor->id || (chain && run.version > anchor->version))) {
      v.why = "the way from nothing starts with the anchor of " + version_text(anchor->version);
    } else if (chain && neediest != nullptr && run.version > neediest->above) {
      v.why = neediest->who + " is at " + version_text(neediest->above);
    } else if (chain && run.version > few) {
      v.why = "one of the last " + std::to_string(facts.kept_versions) + " versions";
    } else {
      v = {false, anchor != nullptr ? "older than the anchor of " + version_text(anchor->version) + ", and nobody needs it"
                                    : "nobody needs it: newcomers copy slabs, the trainer keeps the way from nothing"};
    }
    verdicts.push_back(std::move(v));
  }
  return verdicts;
}

}  // namespace p2pw
