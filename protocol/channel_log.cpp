#include "protocol/channel_log.h"

#include <algorithm>

#include "protocol/limits.h"

namespace p2pw {
namespace {

using Took = LogAnswer::Kind;
using What = Missing::What;

LogAnswer answered(Took kind) {
  return {kind, std::nullopt, std::nullopt};
}
LogAnswer refused(ErrorCode code, std::string message) {
  return {Took::refused, std::nullopt, fail(code, std::move(message))};
}
LogAnswer refused(Error error) {
  return {Took::refused, std::nullopt, std::move(error)};
}

template <class Id>
Sha256 plain(const Id& id) {
  Sha256 hash;
  hash.data = id.data;
  return hash;
}

std::string version_text(Version version) {
  return "version " + std::to_string(version.value());
}

}  // namespace

std::string_view name_of(LogAnswer::Kind kind) {
  static constexpr std::string_view kNames[] = {"accepted", "duplicate", "waiting", "stale", "refused"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view name_of(HeadState state) {
  static constexpr std::string_view kNames[] = {"unknown", "idle", "behind", "frozen"};
  return kNames[static_cast<std::size_t>(state)];
}

ChannelLog::ChannelLog(Channel channel, VerifyingKey publisher) : verifier_(std::move(channel), publisher) {}

LogAnswer ChannelLog::receive(ByteView envelope, WallTime now) {
  const auto id = record_id(envelope);
  if (!id) return refused(id.error());
  if (ids_.contains(*id)) return answered(Took::duplicate);
  auto record = verifier_.verify(envelope, now);
  if (!record) return refused(std::move(record).error());
  return add(*record, now);
}

LogAnswer ChannelLog::add(const VerifiedRecord& record, WallTime now) {
  if (ids_.contains(record.id())) return answered(Took::duplicate);
  LogAnswer answer = take(record, now);
  if (answer.kind == Took::accepted || answer.kind == Took::waiting) ids_.insert(record.id());
  if (!resolved_.empty()) retry_waiting(now);
  return answer;
}

std::vector<LogEvent> ChannelLog::take_events() {
  return std::exchange(events_, {});
}

LogAnswer ChannelLog::take(const VerifiedRecord& record, WallTime now) {
  struct Dispatch {
    ChannelLog& log;
    const VerifiedRecord& record;
    WallTime now;
    LogAnswer operator()(const OpenRecord&) const { return log.take_open(record); }
    LogAnswer operator()(const BundleRecord&) const { return log.take_bundle(record); }
    LogAnswer operator()(const SealRecord&) const { return log.take_seal(record); }
    LogAnswer operator()(const AbandonRecord&) const { return log.take_abandon(record); }
    LogAnswer operator()(const CertifyRecord&) const { return log.take_certify(record); }
    LogAnswer operator()(const DelegateRecord&) const { return log.take_delegate(record); }
    LogAnswer operator()(const HeadRecord&) const { return log.take_head(record, now); }
  };
  return std::visit(Dispatch{*this, record, now}, record.body());
}

LogAnswer ChannelLog::keep_aside(const VerifiedRecord& record, Missing missing) {
  if (waiting_.size() >= kMaxWaiting) {
    ids_.erase(waiting_.front().record.id());
    waiting_.pop_front();
  }
  waiting_.push_back({record, missing});
  return {Took::waiting, missing, std::nullopt};
}

void ChannelLog::retry_waiting(WallTime now) {
  while (!resolved_.empty()) {
    const auto resolved = std::exchange(resolved_, {});
    std::vector<VerifiedRecord> ready;
    std::erase_if(waiting_, [&](const Waiting& waiting) {
      if (!resolved.contains(waiting.missing.id)) return false;
      ready.push_back(waiting.record);
      return true;
    });
    for (const VerifiedRecord& record : ready) {
      const LogAnswer answer = take(record, now);
      if (answer.kind != Took::accepted && answer.kind != Took::waiting) ids_.erase(record.id());
    }
  }
}

Run* ChannelLog::find(const RunId& id) {
  const auto found = runs_.find(id);
  return found == runs_.end() ? nullptr : &found->second;
}

void ChannelLog::emit(LogEvent::Kind kind, const Run& run, BundleIndex bundle) {
  events_.push_back({kind, run.version(), run.id(), bundle});
}

void ChannelLog::kill(Run& run) {
  if (run.state() != RunState::open) return;
  run.supersede();
  emit(LogEvent::Kind::died, run);
}

LogAnswer ChannelLog::take_open(const VerifiedRecord& record) {
  const OpenRecord& open = *record.as<OpenRecord>();
  if (open.previous_seal.is_zero()) return take_chain_open(record, Version());
  const auto previous = seals_.find(open.previous_seal);
  if (previous == seals_.end()) {
    // A delta says by itself which version its previous seal belongs to. An anchor does not: it may be the
    // next version after a hole, or another anchor of a version that is not known yet.
    if (open.kind == Kind::anchor) return keep_aside(record, {What::seal, plain(open.previous_seal)});
    LogAnswer answer = take_chain_open(record, open.parent);
    if (answer.kind == Took::accepted) answer.missing = Missing{What::seal, plain(open.previous_seal)};
    return answer;
  }
  const SealFacts& facts = previous->second;
  if (facts.version == open.version && open.kind == Kind::anchor) return take_anchor_again(record);
  if (facts.version >= open.version) {
    return refused(ErrorCode::integrity, version_text(open.version) + " is opened after the seal of " +
                                             version_text(facts.version) + ": versions only rise");
  }
  if (open.kind == Kind::delta && (open.parent != facts.version || open.parent_table != facts.table)) {
    return refused(ErrorCode::integrity,
                   version_text(open.version) + " names a parent that is not the sealed version before it");
  }
  return take_chain_open(record, facts.version);
}

LogAnswer ChannelLog::take_chain_open(const VerifiedRecord& record, Version previous) {
  const OpenRecord& open = *record.as<OpenRecord>();
  highest_seen_ = std::max(highest_seen_, open.version);
  if (chain_.contains(open.version)) {
    return refused(ErrorCode::integrity,
                   version_text(open.version) + " of " + record.channel().str() +
                       " has been opened twice: the publisher's key is in use in two places");
  }
  if (const Run* below = version(previous); below != nullptr) {
    const bool other_seal = below->seal() != nullptr && below->seal_hash() != open.previous_seal;
    if (other_seal || below->state() == RunState::dead) {
      return refused(ErrorCode::integrity, version_text(open.version) + " of " + record.channel().str() +
                                               " does not build on " + version_text(previous) +
                                               " as it is known");
    }
  }
  // Everything between the previous version and this one is dead by this record, so it must not be sealed.
  const auto begin = chain_.upper_bound(previous), end = chain_.lower_bound(open.version);
  for (auto it = begin; it != end; ++it) {
    if (runs_.at(it->second).seal() != nullptr) {
      return refused(ErrorCode::integrity,
                     version_text(open.version) + " of " + record.channel().str() + " passes over " +
                         version_text(it->first) +
                         ", which is sealed: the publisher's key is in use in two places");
    }
  }
  // The nearest living version above decides whether this one was passed over.
  for (auto it = end; it != chain_.end(); ++it) {
    const Run& above = runs_.at(it->second);
    if (above.previous() < open.version) return answered(Took::stale);
    if (above.state() != RunState::dead) break;
  }
  for (auto it = begin; it != end; ++it) kill(runs_.at(it->second));
  chain_.emplace(open.version, id_as<RunId>(record.id()));
  return insert_run(Run(record, previous, false));
}

LogAnswer ChannelLog::take_anchor_again(const VerifiedRecord& record) {
  const OpenRecord& open = *record.as<OpenRecord>();
  const Run* first = version(open.version);
  if (first != nullptr &&
      (first->open().layout_hash != open.layout_hash || first->seal_hash() != open.previous_seal)) {
    return refused(ErrorCode::integrity,
                   "an anchor of " + version_text(open.version) + " does not belong to it");
  }
  again_.emplace(open.version, id_as<RunId>(record.id()));
  return insert_run(Run(record, open.version, true));
}

LogAnswer ChannelLog::insert_run(Run run) {
  const RunId id = run.id();
  Run& kept = runs_.emplace(id, std::move(run)).first->second;
  emit(LogEvent::Kind::opened, kept);
  resolved_.insert(plain(id));
  // A seal of it that came first.
  const auto bare = std::ranges::find_if(
      bare_seals_, [&](const auto& seal) { return seal.second.template as<SealRecord>()->run == id; });
  if (bare != bare_seals_.end()) {
    const VerifiedRecord seal = bare->second;
    bare_seals_.erase(bare);
    if (take_seal(seal).kind == Took::refused) {
      ids_.erase(seal.id());
      seals_.erase(id_as<SealHash>(seal.id()));
    }
  }
  return answered(Took::accepted);
}

LogAnswer ChannelLog::take_bundle(const VerifiedRecord& record) {
  const BundleRecord& bundle = *record.as<BundleRecord>();
  Run* run = find(bundle.run);
  if (run == nullptr) return keep_aside(record, {What::run, plain(bundle.run)});
  if (run->state() == RunState::dead) return answered(Took::stale);
  if (Status added = run->add_bundle(record); !added) return refused(std::move(added).error());
  emit(LogEvent::Kind::bundle, *run, bundle.index);
  if (run->state() == RunState::sealed) completed(*run);
  return answered(Took::accepted);
}

// Whatever was opened on top of this seal must agree with what it says.
Status ChannelLog::fits_children(const SealHash& hash, Version version, const Sha256& table) const {
  for (auto it = chain_.upper_bound(version); it != chain_.end(); ++it) {
    const Run& child = runs_.at(it->second);
    const bool names_it = child.open().previous_seal == hash;
    const bool builds_on_it = child.previous() == version;
    const bool same_table = child.open().kind == Kind::anchor || child.open().parent_table == table;
    if (names_it != builds_on_it || (names_it && !same_table)) {
      return fail(ErrorCode::integrity, "the seal of " + version_text(version) + " is not the one that " +
                                            version_text(child.version()) + " was made from");
    }
    if (child.state() != RunState::dead) break;  // further ones build on this one
  }
  return {};
}

LogAnswer ChannelLog::take_seal(const VerifiedRecord& record) {
  const SealRecord& seal = *record.as<SealRecord>();
  const SealHash hash = id_as<SealHash>(record.id());
  highest_seen_ = std::max(highest_seen_, seal.version);
  Run* run = find(seal.run);
  if (run == nullptr) {
    if (bare_seals_.size() >= kMaxWaiting) return answered(Took::stale);
    bare_seals_.emplace(hash, record);
    seals_[hash] = {seal.version, seal.table_hash};
    resolved_.insert(plain(hash));
    return {Took::waiting, Missing{What::run, plain(seal.run)}, std::nullopt};
  }
  if (run->state() == RunState::dead) {
    return refused(ErrorCode::integrity,
                   version_text(seal.version) + " is sealed after it was abandoned or passed over");
  }
  if (run->again()) {
    const auto first = seals_.find(run->open().previous_seal);
    if (first == seals_.end() || seal.table_hash != first->second.table) {
      return refused(ErrorCode::integrity,
                     "an anchor of " + version_text(seal.version) + " leads to other weights than it");
    }
  } else if (Status fits = fits_children(hash, seal.version, seal.table_hash); !fits) {
    return refused(std::move(fits).error());
  }
  if (Status added = run->add_seal(record); !added) return refused(std::move(added).error());
  seals_[hash] = {seal.version, seal.table_hash};
  resolved_.insert(plain(hash));
  if (run->state() != RunState::sealed)
    return {Took::waiting, Missing{What::bundles, plain(seal.run)}, std::nullopt};
  completed(*run);
  return answered(Took::accepted);
}

void ChannelLog::completed(const Run& run) {
  emit(LogEvent::Kind::sealed, run);
  if (!run.again()) highest_sealed_ = std::max(highest_sealed_, run.version());
}

LogAnswer ChannelLog::take_abandon(const VerifiedRecord& record) {
  const AbandonRecord& abandon = *record.as<AbandonRecord>();
  Run* run = find(abandon.run);
  if (run == nullptr) return keep_aside(record, {What::run, plain(abandon.run)});
  if (run->state() == RunState::dead) return answered(Took::stale);
  if (Status added = run->add_abandon(record); !added) return refused(std::move(added).error());
  emit(LogEvent::Kind::died, *run);
  return answered(Took::accepted);
}

LogAnswer ChannelLog::take_certify(const VerifiedRecord& record) {
  const CertifyRecord& certify = *record.as<CertifyRecord>();
  const auto seal = seals_.find(certify.seal);
  if (seal == seals_.end()) return keep_aside(record, {What::seal, plain(certify.seal)});
  if (seal->second.version != certify.version || certificates_.contains(certify.version)) {
    return refused(ErrorCode::integrity,
                   version_text(certify.version) + " is certified twice or under another seal");
  }
  certificates_.emplace(certify.version, record);
  events_.push_back({LogEvent::Kind::certified, certify.version, {}, {}});
  return answered(Took::accepted);
}

LogAnswer ChannelLog::take_delegate(const VerifiedRecord& record) {
  if (delegate_ && record.issued() <= delegate_->issued()) return answered(Took::stale);
  if (delegate_) ids_.erase(delegate_->id());
  delegate_ = record;
  verifier_.accept_delegate(record);
  events_.push_back({LogEvent::Kind::delegated, {}, {}, {}});
  return answered(Took::accepted);
}

LogAnswer ChannelLog::take_head(const VerifiedRecord& record, WallTime now) {
  const HeadRecord& head = *record.as<HeadRecord>();
  if (record.issued() > now + limits::kMaxClockCorrection) {
    return refused(ErrorCode::untrusted,
                   "a head from the future: check the clocks of this node and of the trainer");
  }
  if (head_ && record.issued() <= head_->issued()) return answered(Took::stale);
  const HeadRecord* last = this->head();
  const Run* known = version(head.version);
  const bool falls = last != nullptr && (head.version < last->version ||
                                         (head.version == last->version && head.seal != last->seal));
  const bool differs = known != nullptr && known->seal() != nullptr && known->seal_hash() != head.seal;
  if (falls || differs) {
    return refused(ErrorCode::integrity,
                   "a head names " + version_text(head.version) + " of " + record.channel().str() +
                       ", which contradicts what is known: the trainer's daemon has lost its "
                       "state, or its online key is in other hands");
  }
  highest_seen_ = std::max(highest_seen_, head.version);
  if (head_) ids_.erase(head_->id());
  head_ = record;
  events_.push_back({LogEvent::Kind::head, head.version, {}, {}});
  return answered(Took::accepted);
}

}  // namespace p2pw
