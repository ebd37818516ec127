// The log of one channel under one publisher key: which records fit together, what they say, and what is
// missing. SPEC.md ("The log") tells the rules at length; in short:
//
// - A channel is a chain of sealed versions. Each `open` and `seal` names the seal before it by its hash, a
// delta also the
//   table of slab digests that it starts from. Numbers rise along the chain, with holes where versions died.
// - A run (what one `open` began) is open until its seal and every bundle that the seal counts are there. It
// is dead once it
//   was abandoned, or when a higher version was opened that does not build on it.
// - An anchor of a version that is already sealed is outside the chain: its `open` names that very version's
// seal as the
//   previous one, and its own seal must lead to the same slab table. Such a run dies by `abandon` only.
// - Nothing is ever taken back: a record that contradicts one that is known is refused, whichever came first.
//
// Records come over several links in any order. One that needs another one first is kept aside and taken up
// by itself when that arrives; `missing` says what it needs. All of them are verified, so all but refused
// ones may be passed on.
//
// Pure: the clock is an argument. One thread at a time.
#pragma once

#include <deque>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "protocol/run.h"

namespace p2pw {

// What a record waits for.
struct Missing {
  enum class What : std::uint8_t { run, seal, bundles } what = What::run;
  Sha256 id;  // of the run's open, or of the seal
  auto operator<=>(const Missing&) const = default;
};

struct LogAnswer {
  enum class Kind : std::uint8_t {
    accepted,
    duplicate,  // known already
    waiting,    // kept; `missing` is needed first
    stale,      // true, but overtaken: not kept
    refused,    // `error` says why; whoever sent it is suspect
  } kind = Kind::refused;
  std::optional<Missing> missing;  // also with `accepted`, when the chain has a hole below this record
  std::optional<Error> error;
};
std::string_view name_of(LogAnswer::Kind kind);

// What has changed, in order; one record can cause several.
struct LogEvent {
  enum class Kind : std::uint8_t {
    opened,
    bundle,
    sealed,
    died,
    certified,
    delegated,
    head
  } kind = Kind::opened;
  Version version;
  RunId run;           // opened, bundle, sealed, died
  BundleIndex bundle;  // bundle
  auto operator<=>(const LogEvent&) const = default;
};

enum class HeadState : std::uint8_t {
  unknown,  // no head has been seen
  idle,     // the head is fresh, and everything that it names is here
  behind,   // the head is fresh and names a version that is not sealed here yet
  frozen,   // the head has expired: the trainer's daemon is down or somebody holds news back
};
std::string_view name_of(HeadState state);

// "I have the log up to here."
struct LogPosition {
  Version version;  // 0: nothing
  SealHash seal;
  std::vector<Sha256> held;  // ids of later records that are known already
};

class ChannelLog {
 public:
  static constexpr std::size_t kMaxWaiting = 4096;
  static constexpr std::size_t kMaxHeld = 1024;

  ChannelLog(Channel channel, VerifyingKey publisher);

  // Verifies and adds. `now` is corrected (see corrected()). Records that are known already are not verified
  // again.
  LogAnswer receive(ByteView envelope, WallTime now);
  LogAnswer add(const VerifiedRecord& record, WallTime now);
  std::vector<LogEvent> take_events();
  bool knows(const Sha256& id) const { return ids_.contains(id); }  // kept, or waiting for another one

  const RecordVerifier& verifier() const { return verifier_; }

  // The chain.
  Version highest_sealed() const;  // 0: none
  SealHash highest_seal() const;   // zero: none
  Version highest_seen() const {
    return highest_seen_;
  }  // in any verified record; the next version is above it
  const Run* run(const RunId& id) const;
  const Run* version(Version version) const;  // the run of the chain, in whatever state; null: none
  std::vector<const Run*> open_runs() const;  // of the chain, then anchors outside it
  std::vector<const Run*> anchors() const;    // sealed ones, of the chain and outside it, by version
  const CertifyRecord* certificate(Version version) const;

  // The runs to apply, in order, to get from a sealed version to another one (sealed or still open) by deltas
  // alone; or to get there from nothing, starting at the latest sealed anchor. Nothing when a record is
  // missing or an anchor is in between.
  std::optional<std::vector<RunId>> deltas(Version have, Version want) const;
  std::optional<std::vector<RunId>> lineage(Version want) const;

  // The head. `now` is corrected.
  HeadState head_state(WallTime now) const;
  const HeadRecord* head() const { return head_ ? head_->as<HeadRecord>() : nullptr; }
  const std::optional<VerifiedRecord>& delegate_record() const { return delegate_; }

  // Local time put right by the offset that the links have agreed on, by no more than
  // limits::kMaxClockCorrection.
  static WallTime corrected(WallTime local, std::chrono::milliseconds offset);

  // Pulling on connect: what to ask for, and what to answer. A stranger to the channel gets the latest
  // anchor's lineage. The pointers are good until the log changes; the records are in an order in which none
  // has to wait.
  LogPosition position() const;
  std::vector<const VerifiedRecord*> newer_than(const LogPosition& position) const;
  // Everything that is kept: the log as a file is these envelopes one after the other, for receive().
  std::vector<const VerifiedRecord*> all() const;

  // Forgets versions below `keep_from` (which must have a lineage that starts there or above to be of use),
  // and dead ones.
  void prune(Version keep_from);

 private:
  struct SealFacts {
    Version version;
    Sha256 table;
  };
  struct Waiting {
    VerifiedRecord record;
    Missing missing;
  };

  LogAnswer take(const VerifiedRecord& record, WallTime now);
  LogAnswer take_open(const VerifiedRecord& record);
  LogAnswer take_chain_open(const VerifiedRecord& record, Version previous);
  LogAnswer take_anchor_again(const VerifiedRecord& record);
  LogAnswer take_bundle(const VerifiedRecord& record);
  LogAnswer take_seal(const VerifiedRecord& record);
  LogAnswer take_abandon(const VerifiedRecord& record);
  LogAnswer take_certify(const VerifiedRecord& record);
  LogAnswer take_delegate(const VerifiedRecord& record);
  LogAnswer take_head(const VerifiedRecord& record, WallTime now);

  LogAnswer insert_run(Run run);
  void completed(const Run& run);
  void kill(Run& run);
  Status fits_children(const SealHash& hash, Version version, const Sha256& table) const;
  LogAnswer keep_aside(const VerifiedRecord& record, Missing missing);
  void retry_waiting(WallTime now);
  Run* find(const RunId& id);
  void emit(LogEvent::Kind kind, const Run& run, BundleIndex bundle = {});
  static void append_run(const Run& run, std::vector<const VerifiedRecord*>& out);
  void append_version(Version version, std::vector<const VerifiedRecord*>& out) const;
  void append_latest_extras(Version up_to, std::vector<const VerifiedRecord*>& out) const;
  void append_from(Version from, std::vector<const VerifiedRecord*>& out) const;
  const VerifiedRecord* seal_of(Version version, const SealHash& hash) const;
  const Run* sealed_again(Version version) const;
  Version unbroken_tip() const;
  void forget_run(const Run& run);

  RecordVerifier verifier_;
  std::unordered_map<RunId, Run> runs_;
  std::map<Version, RunId> chain_;                 // one run for each version
  std::multimap<Version, RunId> again_;            // anchors outside the chain
  std::unordered_map<SealHash, SealFacts> seals_;  // every verified seal, bare ones too
  std::map<SealHash, VerifiedRecord> bare_seals_;  // of runs that are not known, at most kMaxWaiting
  std::map<Version, VerifiedRecord> certificates_;
  std::optional<VerifiedRecord> delegate_;
  std::optional<VerifiedRecord> head_;
  std::deque<Waiting> waiting_;          // oldest first
  std::unordered_set<Sha256> ids_;       // of everything kept
  std::unordered_set<Sha256> resolved_;  // runs and seals that have just become known
  std::vector<LogEvent> events_;
  Version highest_sealed_;
  Version highest_seen_;
};

}  // namespace p2pw
