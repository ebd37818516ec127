// Which bundles a follower opens, of those that it knows by their records: what its peers offer, and what it asks for.
#include <spdlog/spdlog.h>

#include "daemon/core/follower.h"

namespace p2pw {

using std::chrono::milliseconds;

namespace {

constexpr milliseconds kMetaPatience{300};  // a meta travels with its record; after that it is asked for
constexpr milliseconds kMetaRepeat{1000};

}  // namespace

Follower::Use Follower::use_of(const RunId& id) const {
  const Run* run = log_.run(id);
  if (run == nullptr || run->state() == RunState::dead) return Use::none;
  if (config_.node.role == Role::trainer || exchange_->wants(*run)) return Use::open;
  return exchange_->undecided_about(*run) ? Use::undecided : Use::none;
}

Status Follower::take_offered_meta(const BundleId& bundle, Bytes meta) {
  auto known = known_.find(bundle);
  const Use use = known == known_.end() ? Use::undecided : use_of(known->second.run);
  if (use == Use::open) return take_meta(bundle, std::move(meta));
  if (use == Use::undecided) host_.early_metas().add(bundle, std::move(meta));
  return {};
}

bool Follower::unwanted(const BundleId& bundle) const {
  auto known = known_.find(bundle);
  return known != known_.end() && !known->second.open && use_of(known->second.run) == Use::none;
}

// What was in flight when it was opened, or lies here from before a restart, and is no part of the way that was chosen. The
// rest of it would still come.
void Follower::close_unwanted() {
  for (auto& [id, known] : known_) {
    const Run* run = log_.run(known.run);
    if (run == nullptr || run->state() != RunState::sealed || use_of(known.run) != Use::none) continue;
    if (!known.open) {
      (void)host_.early_metas().take(id);
      continue;
    }
    auto stored = bundles_.find(id);
    if (stored == nullptr || stored->file->complete()) continue;
    known.open = false;
    known.asked = 0;
    remove_bundles({id});
  }
}

void Follower::look_for_metas(SteadyTime now) {
  for (auto& [id, known] : known_) {
    if (known.open) continue;
    const Run* run = log_.run(known.run);
    if (run == nullptr || !exchange_->wants(*run)) continue;
    if (auto meta = host_.early_metas().take(id)) {
      auto opened = open_bundle(id, *meta);
      if (opened.ok()) continue;
      spdlog::warn("channel {}: bundle {}: {}", channel().str(), id.short_hex(), opened.error().message);
    }
    if (now - known.known_at < kMetaPatience || now - known.asked_at < kMetaRepeat) continue;
    known.asked_at = now;
    if (known.asked == 0) known.first_asked = now;
    host_.want_meta(id, ++known.asked % 2 == 0);
  }
}

}  // namespace p2pw
