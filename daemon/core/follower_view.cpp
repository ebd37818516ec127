// What a follower keeps and how far it is, for retention, status and metrics.
#include "daemon/core/follower.h"

namespace p2pw {

// What a run here is, for retention.
std::vector<Follower::Kept> Follower::retention(bool drop) {
  RetentionFacts facts;
  facts.keeper = config_.node.role == Role::trainer;
  facts.needs = exchange_->pins(host_.steady_now());
  for (Need& need : host_.seen_lately(channel())) facts.needs.push_back(std::move(need));
  std::vector<RetainedRun> runs;
  for (auto& [id, bundles] : bundles_of_) {
    RetainedRun& out = runs.emplace_back();
    out.id = id;
    out.needed = rebuilder_->needs(id);
    const Run* run = log_.run(id);
    out.state = run ? run->state() : RunState::dead;
    if (run) {
      out.version = run->version();
      out.kind = run->open().kind;
      out.again = run->again();
    }
    for (const BundleId& bundle : bundles) {
      if (auto stored = bundles_.find(bundle)) out.bytes += stored->record.padded_bytes();
    }
    out.complete = run && has_all(*run, bundles);
  }
  auto verdicts = retain(runs, facts);
  std::vector<Kept> kept;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    bool forgotten = runs[i].bytes == 0 && runs[i].state != RunState::open;
    if (!forgotten) kept.push_back({runs[i].version, runs[i].kind, runs[i].bytes, verdicts[i]});
    if (drop && !verdicts[i].keep && !forgotten) drop_bundles(runs[i].id);
    if (drop && !verdicts[i].keep && runs[i].state == RunState::dead) drop_run(runs[i].id);
  }
  return kept;
}

// The bundles of all versions above it lie here, complete.
Version Follower::keeps_above() const {
  Version above = version_current();
  for (const Run* run = log_.version(above); run && run->state() == RunState::sealed; run = log_.version(above)) {
    auto bundles = bundles_of_.find(run->id());
    if (bundles == bundles_of_.end() || run->open().kind == Kind::anchor || !has_all(*run, bundles->second)) break;
    above = run->previous();
  }
  return above;
}

Version Follower::version_sealed() const { return log_.highest_sealed(); }
SealHash Follower::sealed_hash() const { return log_.highest_seal(); }

Version Follower::version_active() const { return activation_->served(); }

Version Follower::version_current() const {
  auto active = slots_->active_version();
  return active ? active->version() : Version();
}

Version Follower::version_staged() const {
  return std::max(staged_ ? staged_->version() : Version(), version_current());
}

bool Follower::settled() const {
  const bool at_the_end = version_active() == version_sealed() || version_sealed().value() == 0;
  return at_the_end && activation_->state() == ActivationState::idle;
}

Version Follower::highest_used() const { return std::max(log_.highest_seen(), version_current()); }

std::uint64_t Follower::used_bytes(Version version) const {
  const Run* run = log_.version(version);
  std::uint64_t total = 0;
  if (!run) return 0;
  for (auto& [index, record] : run->bundles()) total += record.as<BundleRecord>()->used_bytes;
  return total;
}

const std::vector<NodeKey>* Follower::live_at_seal(Version version) const {
  auto it = live_at_seal_.find(version);
  return it == live_at_seal_.end() ? nullptr : &it->second;
}

std::uint64_t Follower::last_delta_bytes() const {
  const Run* run = log_.version(log_.highest_sealed());
  return run && run->seal() && run->open().kind == Kind::delta ? run->seal()->delta_bytes : 0;
}

std::string Follower::head_state() const {
  switch (log_.head_state(host_.agreed_now())) {
    case HeadState::unknown: return "none";
    case HeadState::frozen: return "frozen";
    default: return "live";
  }
}

std::string Follower::state() const {
  // The watch is no activation, and what is not known stays unknown while it is found out.
  bool changing = activation_->state() != ActivationState::idle && activation_->state() != ActivationState::asking;
  if (!activation_->engine().known && slots_->active_version()) return "unknown";
  if (changing) return "activating";
  if (version_staged() > version_active()) return "staged";
  auto progress = rebuilder_->progress();
  if (progress.target.value() != 0 && !progress.catching_up) {
    if (version_active().value() == 0 && progress.frames_arrived == 0) return "joining";
    return progress.frames_arrived < progress.frames_known || progress.frames_known == 0 ? "fetching" : "rebuilding";
  }
  if (version_active() < version_sealed()) return version_active().value() == 0 ? "joining" : "fetching";
  return head_state() == "frozen" ? "frozen" : "idle";
}

}  // namespace p2pw
