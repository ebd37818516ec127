// What a channel's log can tell: the chain, ways through it, and what another daemon is missing.
#include <algorithm>
#include <set>

#include "protocol/channel_log.h"
#include "protocol/limits.h"

namespace p2pw {

Version ChannelLog::highest_sealed() const {
  return highest_sealed_;
}

SealHash ChannelLog::highest_seal() const {
  const Run* top = version(highest_sealed_);
  return top == nullptr ? SealHash() : top->seal_hash();
}

const Run* ChannelLog::run(const RunId& id) const {
  const auto found = runs_.find(id);
  return found == runs_.end() ? nullptr : &found->second;
}

const Run* ChannelLog::version(Version version) const {
  const auto found = chain_.find(version);
  return found == chain_.end() ? nullptr : &runs_.at(found->second);
}

std::vector<const Run*> ChannelLog::open_runs() const {
  std::vector<const Run*> out;
  const auto add = [&](const RunId& id) {
    if (const Run& run = runs_.at(id); run.state() == RunState::open) out.push_back(&run);
  };
  for (const auto& [version, id] : chain_) add(id);
  for (const auto& [version, id] : again_) add(id);
  return out;
}

std::vector<const Run*> ChannelLog::anchors() const {
  std::vector<const Run*> out;
  for (const auto& [id, run] : runs_) {
    if (run.open().kind == Kind::anchor && run.state() == RunState::sealed) out.push_back(&run);
  }
  std::ranges::sort(out, {}, [](const Run* run) { return std::pair(run->version(), run->again()); });
  return out;
}

const CertifyRecord* ChannelLog::certificate(Version version) const {
  const auto found = certificates_.find(version);
  return found == certificates_.end() ? nullptr : found->second.as<CertifyRecord>();
}

const Run* ChannelLog::sealed_again(Version version) const {
  const auto [begin, end] = again_.equal_range(version);
  for (auto it = begin; it != end; ++it) {
    if (const Run& run = runs_.at(it->second); run.state() == RunState::sealed) return &run;
  }
  return nullptr;
}

std::optional<std::vector<RunId>> ChannelLog::deltas(Version have, Version want) const {
  std::vector<RunId> path;
  for (Version at = want; at != have;) {
    const Run* run = version(at);
    if (run == nullptr || run->state() == RunState::dead || run->open().kind != Kind::delta || at < have) {
      return std::nullopt;
    }
    if (at != want && run->state() != RunState::sealed) return std::nullopt;
    path.push_back(run->id());
    at = run->previous();
  }
  std::ranges::reverse(path);
  return path;
}

std::optional<std::vector<RunId>> ChannelLog::lineage(Version want) const {
  std::vector<RunId> path;
  for (Version at = want;;) {
    const Run* run = version(at);
    if (run == nullptr || run->state() == RunState::dead) return std::nullopt;
    if (at != want && run->state() != RunState::sealed) return std::nullopt;
    const Run* again = run->open().kind == Kind::anchor ? nullptr : sealed_again(at);
    path.push_back(again != nullptr ? again->id() : run->id());
    if (again != nullptr || run->open().kind == Kind::anchor) break;
    at = run->previous();
  }
  std::ranges::reverse(path);
  return path;
}

HeadState ChannelLog::head_state(WallTime now) const {
  const HeadRecord* last = head();
  if (last == nullptr) return HeadState::unknown;
  if (now >= last->expires) return HeadState::frozen;
  return last->version > highest_sealed_ ? HeadState::behind : HeadState::idle;
}

WallTime ChannelLog::corrected(WallTime local, std::chrono::milliseconds offset) {
  constexpr std::chrono::milliseconds kMost = limits::kMaxClockCorrection;
  return local + std::clamp(offset, -kMost, kMost);
}

// The highest sealed version below which nothing is missing down to an anchor.
Version ChannelLog::unbroken_tip() const {
  for (auto it = chain_.rbegin(); it != chain_.rend(); ++it) {
    if (runs_.at(it->second).state() == RunState::sealed && lineage(it->first)) return it->first;
  }
  return {};
}

const VerifiedRecord* ChannelLog::seal_of(Version at, const SealHash& hash) const {
  if (const Run* run = version(at); run != nullptr && run->seal_hash() == hash) return &*run->seal_record();
  const auto bare = bare_seals_.find(hash);
  return bare == bare_seals_.end() ? nullptr : &bare->second;
}

void ChannelLog::append_run(const Run& run, std::vector<const VerifiedRecord*>& out) {
  out.push_back(&run.open_record());
  for (const auto& [index, bundle] : run.bundles()) out.push_back(&bundle);
  if (run.seal_record()) out.push_back(&*run.seal_record());
}

void ChannelLog::append_version(Version at, std::vector<const VerifiedRecord*>& out) const {
  if (const Run* run = version(at); run != nullptr) {
    if (run->state() != RunState::dead) {
      append_run(*run, out);
    } else if (run->abandon_record() && at > highest_sealed_) {
      out.push_back(&run->open_record());
      out.push_back(&*run->abandon_record());
    }
  }
  const auto [begin, end] = again_.equal_range(at);
  for (auto it = begin; it != end; ++it) {
    if (const Run& run = runs_.at(it->second); run.state() != RunState::dead) append_run(run, out);
  }
  const auto certificate = certificates_.find(at);
  if (certificate != certificates_.end()) out.push_back(&certificate->second);
}

void ChannelLog::append_from(Version from, std::vector<const VerifiedRecord*>& out) const {
  std::set<Version> versions;
  for (auto it = chain_.lower_bound(from); it != chain_.end(); ++it) versions.insert(it->first);
  for (auto it = again_.lower_bound(from); it != again_.end(); ++it) versions.insert(it->first);
  for (auto it = certificates_.lower_bound(from); it != certificates_.end(); ++it) versions.insert(it->first);
  for (Version at : versions) append_version(at, out);
}

// Anchors and certificates are made after their version, so one may have missed them though it has the chain.
void ChannelLog::append_latest_extras(Version up_to, std::vector<const VerifiedRecord*>& out) const {
  for (auto anchor = again_.upper_bound(up_to); anchor != again_.begin();) {
    const Run& run = runs_.at((--anchor)->second);
    if (run.state() == RunState::dead) continue;
    append_run(run, out);
    break;
  }
  const auto certificate = certificates_.upper_bound(up_to);
  if (certificate != certificates_.begin()) out.push_back(&std::prev(certificate)->second);
}

LogPosition ChannelLog::position() const {
  LogPosition out;
  out.version = unbroken_tip();
  if (const Run* tip = version(out.version); tip != nullptr) out.seal = tip->seal_hash();
  std::vector<const VerifiedRecord*> later;
  if (delegate_) later.push_back(&*delegate_);
  if (head_) later.push_back(&*head_);
  for (const auto& [hash, seal] : bare_seals_) later.push_back(&seal);
  append_latest_extras(out.version, later);
  append_from(out.version.next(), later);
  for (const Waiting& waiting : waiting_) later.push_back(&waiting.record);
  for (const VerifiedRecord* record : later) {
    if (out.held.size() < kMaxHeld) out.held.push_back(record->id());
  }
  return out;
}

std::vector<const VerifiedRecord*> ChannelLog::newer_than(const LogPosition& position) const {
  std::vector<const VerifiedRecord*> out;
  if (delegate_) out.push_back(&*delegate_);
  const auto known = seals_.find(position.seal);
  if (known != seals_.end() && known->second.version == position.version) {
    append_latest_extras(position.version, out);
    append_from(position.version.next(), out);
  } else if (position.version <= highest_sealed_) {
    // A stranger, or one from before what is kept here. The seal below the first version closes the chain for
    // it.
    const auto path = lineage(highest_sealed_);
    const Version from = path ? run(path->front())->version() : Version();
    if (const Run* first = version(from); first != nullptr) {
      if (const auto* below = seal_of(first->previous(), first->open().previous_seal)) out.push_back(below);
    }
    append_from(from, out);
  }
  if (head_) out.push_back(&*head_);
  const std::unordered_set<Sha256> held(position.held.begin(), position.held.end());
  std::erase_if(out, [&](const VerifiedRecord* record) { return held.contains(record->id()); });
  return out;
}

std::vector<const VerifiedRecord*> ChannelLog::all() const {
  std::vector<const VerifiedRecord*> out;
  if (delegate_) out.push_back(&*delegate_);
  for (const auto& [hash, seal] : bare_seals_) out.push_back(&seal);
  append_from(Version(), out);
  if (head_) out.push_back(&*head_);
  return out;
}

void ChannelLog::forget_run(const Run& run) {
  ids_.erase(run.open_record().id());
  for (const auto& [index, bundle] : run.bundles()) ids_.erase(bundle.id());
  if (run.abandon_record()) ids_.erase(run.abandon_record()->id());
  if (run.seal_record()) {
    ids_.erase(run.seal_record()->id());
    seals_.erase(run.seal_hash());
  }
  const RunId id = run.id();
  runs_.erase(id);
}

void ChannelLog::prune(Version keep_from) {
  std::optional<VerifiedRecord> base;
  std::erase_if(chain_, [&](const auto& entry) {
    const Run& run = runs_.at(entry.second);
    const bool dead = run.state() == RunState::dead && entry.first < highest_sealed_;
    if (entry.first >= keep_from && !dead) return false;
    if (run.state() == RunState::sealed) base = run.seal_record();
    forget_run(run);
    return true;
  });
  std::erase_if(again_, [&](const auto& entry) {
    const Run& run = runs_.at(entry.second);
    if (entry.first >= keep_from && run.state() != RunState::dead) return false;
    forget_run(run);
    return true;
  });
  std::erase_if(certificates_, [&](const auto& entry) {
    if (entry.first >= keep_from) return false;
    ids_.erase(entry.second.id());
    return true;
  });
  if (!base) return;
  std::erase_if(bare_seals_, [&](const auto& entry) {
    if (entry.second.template as<SealRecord>()->version >= keep_from) return false;
    ids_.erase(entry.second.id());
    seals_.erase(entry.first);
    return true;
  });
  const SealRecord& seal = *base->as<SealRecord>();
  seals_[id_as<SealHash>(base->id())] = {seal.version, seal.table_hash};
  ids_.insert(base->id());
  bare_seals_.emplace(id_as<SealHash>(base->id()), *base);
}

}  // namespace p2pw
