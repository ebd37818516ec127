// One run: what one `open` began. Part of a channel's log (channel_log.h), which alone changes it.
#pragma once

#include <map>

#include "protocol/record.h"

namespace p2pw {

// open -> sealed: its seal and all bundles that the seal names are known.
// open -> dead:   it was abandoned, or a higher version was opened without it.
enum class RunState : std::uint8_t { open, sealed, dead };
enum class RunEvent : std::uint8_t { completed, superseded, abandoned };
RunState next_state(RunState now, RunEvent event);
std::string_view name_of(RunState state);

class Run {
 public:
  // `previous`: the version that the previous seal belongs to. `again`: an anchor of a version that was
  // sealed already.
  Run(VerifiedRecord open, Version previous, bool again);

  RunId id() const { return id_as<RunId>(open_.id()); }
  const OpenRecord& open() const { return *open_.as<OpenRecord>(); }
  Version version() const { return open().version; }
  Version previous() const { return previous_; }
  bool again() const { return again_; }
  RunState state() const { return state_; }

  const VerifiedRecord& open_record() const { return open_; }
  const std::map<BundleIndex, VerifiedRecord>& bundles() const { return bundles_; }
  const BundleRecord* bundle(BundleIndex index) const;
  // The seal, from the moment it is known: bundles may still be missing until the state is sealed.
  const SealRecord* seal() const { return seal_ ? seal_->as<SealRecord>() : nullptr; }
  const std::optional<VerifiedRecord>& seal_record() const { return seal_; }
  const std::optional<VerifiedRecord>& abandon_record() const { return abandon_; }
  SealHash seal_hash() const { return seal_ ? id_as<SealHash>(seal_->id()) : SealHash(); }

  // Each checks that the record fits this run, and takes it. After add_bundle() and add_seal() the state may
  // be sealed. Errors: integrity, naming what contradicts what.
  Status add_bundle(const VerifiedRecord& bundle);
  Status add_seal(const VerifiedRecord& seal);
  Status add_abandon(const VerifiedRecord& abandon);
  void supersede() { state_ = next_state(state_, RunEvent::superseded); }

 private:
  Error contradiction(const std::string& what) const;
  // All bundles are there: do they hash to what the seal says?
  bool complete() const;
  bool matches() const;

  VerifiedRecord open_;
  Version previous_;
  bool again_;
  RunState state_ = RunState::open;
  std::map<BundleIndex, VerifiedRecord> bundles_;
  std::optional<VerifiedRecord> seal_;
  std::optional<VerifiedRecord> abandon_;
};

}  // namespace p2pw
