#include "protocol/run.h"

#include "protocol/hash.h"

namespace p2pw {

RunState next_state(RunState now, RunEvent event) {
  using enum RunState;
  static constexpr RunState kTable[3][3] = {
      // completed, superseded, abandoned
      {sealed, dead, dead},      // open
      {sealed, sealed, sealed},  // sealed: for good
      {dead, dead, dead},        // dead: for good
  };
  return kTable[static_cast<std::size_t>(now)][static_cast<std::size_t>(event)];
}

std::string_view name_of(RunState state) {
  switch (state) {
    case RunState::open:
      return "open";
    case RunState::sealed:
      return "sealed";
    case RunState::dead:
      return "dead";
  }
  return "dead";
}

Run::Run(VerifiedRecord open, Version previous, bool again)
    : open_(std::move(open)), previous_(previous), again_(again) {}

const BundleRecord* Run::bundle(BundleIndex index) const {
  const auto found = bundles_.find(index);
  return found == bundles_.end() ? nullptr : found->second.as<BundleRecord>();
}

Error Run::contradiction(const std::string& what) const {
  return fail(ErrorCode::integrity, "version " + std::to_string(version().value()) + " of " +
                                        open_.channel().str() + ": " + what +
                                        "; the publisher's key has signed things that contradict each other");
}

bool Run::complete() const {
  return seal_ && bundles_.size() == seal()->bundles;
}

bool Run::matches() const {
  Sha256Stream ids;
  for (const auto& [index, bundle] : bundles_) ids.add(bundle.id().view());
  return ids.finish() == seal()->bundles_hash;
}

Status Run::add_bundle(const VerifiedRecord& record) {
  const BundleRecord& bundle = *record.as<BundleRecord>();
  const std::string name = "bundle " + std::to_string(bundle.index.value());
  if (bundle.version != version()) return contradiction(name + " names another version");
  if (bundle.chunk_bytes != open().chunk_bytes) return contradiction(name + " has another chunk size");
  if (bundles_.contains(bundle.index)) return contradiction("there are two different records of " + name);
  if (seal_ && bundle.index.value() >= seal()->bundles)
    return contradiction(name + " is beyond what the seal counts");
  bundles_.emplace(bundle.index, record);
  if (!complete()) return {};
  if (!matches()) {
    bundles_.erase(bundle.index);
    return contradiction("the seal is over other bundles");
  }
  state_ = next_state(state_, RunEvent::completed);
  return {};
}

Status Run::add_seal(const VerifiedRecord& record) {
  const SealRecord& seal = *record.as<SealRecord>();
  if (seal_) return contradiction("it is sealed twice");
  if (seal.version != version()) return contradiction("its seal names another version");
  if (seal.previous_seal != open().previous_seal)
    return contradiction("open and seal name different seals before them");
  if (seal.tensor_slabs != open().tensor_slabs)
    return contradiction("open and seal differ in the number of slabs");
  if (open().kind == Kind::anchor && seal.bundles == 0) return contradiction("an anchor without bundles");
  if (!bundles_.empty() && bundles_.rbegin()->first.value() >= seal.bundles) {
    return contradiction("its seal counts fewer bundles than were signed");
  }
  seal_ = record;
  if (!complete()) return {};
  if (!matches()) {
    seal_.reset();
    return contradiction("the seal is over other bundles");
  }
  state_ = next_state(state_, RunEvent::completed);
  return {};
}

Status Run::add_abandon(const VerifiedRecord& record) {
  if (record.as<AbandonRecord>()->version != version())
    return contradiction("it is abandoned under another version");
  if (seal_) return contradiction("it is sealed and abandoned");
  abandon_ = record;
  state_ = next_state(state_, RunEvent::abandoned);
  return {};
}

}  // namespace p2pw
