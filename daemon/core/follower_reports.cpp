// What the rebuilder, the activation and the engine report to a follower, and what becomes of it.
#include <spdlog/spdlog.h>

#include "daemon/core/follower.h"

namespace p2pw {
namespace {

constexpr std::chrono::seconds kRetry{5};

}  // namespace

void Follower::version_staged(const StagedVersion& staged) {
  staged_ = staged;
  exchange_->staged();
  times_[staged.version()].staged = host_.wall_now();
  host_.event(channel(), "staged", staged.version(), "slot " + std::string(name_of(staged.slot())));
  host_.state_changed(channel());
  bool wanted = wanted_ && wanted_->first <= staged.version();
  std::optional<bool> flush = wanted ? wanted_->second : std::nullopt;
  if (wanted) wanted_.reset();
  // The first version is what an engine starts with.
  if (wanted || !slots_->active_version()) return activation_->activate(staged, host_.steady_now(), flush);
  gate_.staged(staged.version());
  consider_activation();
}

void Follower::consider_activation() {
  auto waiting = gate_.waiting();
  if (!waiting) return;
  const SteadyTime now = host_.steady_now();
  std::optional<FleetStates::Count> count;
  if (gate_.wants_count(now)) count = host_.staged_count(channel(), *waiting, gate_.policy().fleet);
  if (!gate_.opens(now, count)) return;
  auto staged = slots_->standby()->staged();
  if (!staged || staged->version() != *waiting) return;  // a newer one is on its way into the slot: that will wait in its place
  gate_.activated(*waiting, now);
  activation_->activate(*staged, now);
}

void Follower::want(Version version, std::optional<bool> flush) {
  if (version <= version_active() || activate(version, flush).ok()) return;
  wanted_ = {version, flush};
}

Status Follower::activate(Version version, std::optional<bool> flush) {
  if (version.value() > 0 && version == version_active()) return {};
  if (!staged_ || staged_->version() != version) {
    return fail(ErrorCode::not_found, "version " + std::to_string(version.value()) + " of channel " + channel().str() +
                                          " is not staged on this node; p2pw status shows what is");
  }
  activation_->activate(*staged_, host_.steady_now(), flush);
  return {};
}

void Follower::version_active(const StagedVersion& version) {
  problem_.clear();
  gate_.activated(version.version(), host_.steady_now());
  times_[version.version()].active = host_.wall_now();
  while (times_.size() > 64) times_.erase(times_.begin());
  host_.event(channel(), "active", version.version(), slots_->current().string());
  host_.state_changed(channel());
}

void Follower::activation_failed(const StagedVersion& version, const Error& error) {
  problem_ = "version " + std::to_string(version.version().value()) + " is not active: " + error.message;
  problem_is_engine_ = false;
  spdlog::error("channel {}: {}", channel().str(), problem_);
  host_.event(channel(), "activation-failed", version.version(), error.message);
  host_.state_changed(channel());
}

void Follower::engine_changed() {
  const EngineFacts& engine = activation_->engine();
  if (engine.known) {
    if (problem_is_engine_) problem_.clear();
    problem_is_engine_ = false;
    VersionTimes& times = times_[version_active()];
    if (!times.active) times.active = host_.wall_now();
    host_.event(channel(), "engine-known", version_active(), "it serves version " + std::to_string(version_active().value()));
  } else {
    problem_ = "it is unknown what the engine serves: " + engine.reason;
    problem_is_engine_ = true;
    spdlog::warn("channel {}: {}", channel().str(), problem_);
    host_.event(channel(), "engine-unknown", {}, engine.reason);
  }
  host_.state_changed(channel());
}

void Follower::standby_released() {
  rebuilder_->slots_changed();
  host_.state_changed(channel());
}

void Follower::standby_caught_up(Version version) {
  // It was mended because the active slot is not what was certified: the engine is to have the mended one.
  auto active = slots_->active();
  auto standby = slots_->standby()->staged();
  if (active && active->distrusted() && standby && version == active->version()) {
    take_mended(*standby);
  }
  host_.event(channel(), "caught-up", version, "both slots");
  retention(true);
  host_.state_changed(channel());
}

void Follower::slab_lost(const LostSlab& lost) {
  exchange_->slab_lost(lost, host_.steady_now());
  if (lost.expected) return;
  problem_ = "slab " + std::to_string(lost.slab) + " of the standby is damaged: " + lost.reason;
  spdlog::warn("channel {}: {}", channel().str(), problem_);
  host_.event(channel(), "slab-lost", {}, problem_);
}

void Follower::slab_mended(std::uint32_t slab) {
  exchange_->slab_mended(slab);
  if (rebuilder_->progress().copying) return;
  host_.event(channel(), "slab-mended", {}, "tensor slab " + std::to_string(slab) + " has been taken from a neighbour");
}

void Follower::bundle_damaged(const BundleId& bundle, FrameIndex frame, const Error& error) {
  chunk_damaged(bundle, {error.code, "frame " + std::to_string(frame.value()) + ": " + error.message});
}

void Follower::chunk_damaged(const BundleId& bundle, const Error& error) {
  problem_ = "bundle " + bundle.short_hex() + " is damaged on this disk: " + error.message;
  spdlog::error("channel {}: {}", channel().str(), problem_);
  host_.event(channel(), "bundle-damaged", {}, problem_);
  // Which chunks are still good shows when the file is opened anew; the others are fetched again.
  auto stored = bundles_.find(bundle);
  if (!stored) return;
  host_.bundle_spoilt(bundle);
  host_.bundle_closed(bundle);
  bundles_.close(bundle);
  if (auto opened = open_bundle(bundle, stored->encoded_meta); !opened) rebuild_blocked(opened.error());
}

void Follower::run_failed(const RunId&, Version version, const Error& error) {
  problem_ = "version " + std::to_string(version.value()) + " cannot be rebuilt: " + error.message;
  spdlog::error("channel {}: {}", channel().str(), problem_);
  host_.event(channel(), "failed", version, error.message);
}

void Follower::rebuild_blocked(const Error& error) {
  problem_ = error.message;
  spdlog::error("channel {}: {}", channel().str(), problem_);
  host_.event(channel(), "blocked", {}, error.message);
  retry_at_ = host_.steady_now() + kRetry;
  host_.state_changed(channel());
}

}  // namespace p2pw
