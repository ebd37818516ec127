#include "daemon/mirror/mirror_writer.h"

namespace p2pw {

MirrorWriter::Goal MirrorWriter::goal() const {
  const ChannelLog& log = host_.log();
  Goal goal;
  goal.sealed = log.highest_sealed();
  const auto anchors = log.anchors();
  goal.anchors = anchors.size();
  if (!anchors.empty() && log.certificate(anchors.back()->version()) != nullptr) goal.certified = anchors.back()->version();
  if (log.certificate(goal.sealed) != nullptr) goal.certified = goal.sealed;
  return goal;
}

void MirrorWriter::tick() {
  const SteadyTime now = host_.now();
  if (running_ || now - looked_ < kLook) return;
  looked_ = now;
  const Goal wanted = goal();
  if (wanted != seen_) {
    seen_ = wanted;
    seen_at_ = now;
  }
  if (access_.may_try() && (!probed_ || now - *probed_ >= patience_.probe)) return probe();
  if (wanted == written_ || wanted.sealed.value() == 0 || !access_.may_try() || now < again_) return;
  if (now - seen_at_ < write_delay(host_.writing_place(), patience_)) return;
  begin();
}

// Before it is needed: whoever has mistyped a key is to hear of it on the first day.
void MirrorWriter::probe() {
  const RecordVerifier& verifier = host_.log().verifier();
  const std::string name = MirrorNames(verifier.channel(), verifier.publisher().id).probe(host_.self());
  running_ = true;
  access_.run(
      [name](MirrorStore& store) -> Status {
        P2PW_CHECK(store.put(name, body_of(as_bytes("p2pw\n"))));
        return store.remove(name);
      },
      [this, weak = std::weak_ptr<int>(alive_)](Status probed) {
        if (weak.expired()) return;
        running_ = false;
        if (probed) probed_ = host_.now();
      });
}

void MirrorWriter::begin() {
  MirrorJob job =
      mirror_job(host_.log(), host_.wall_now(), [this](const BundleId& id) -> std::shared_ptr<const StoredBundle> {
        auto stored = host_.stored(id);
        return stored != nullptr && stored->file->complete() ? stored : nullptr;
      });
  const MirrorPosition position = job.position();
  // The newest version is still coming in; or it is in the mirror, and only what this node lacks has changed.
  if (position.version.value() == 0 || (!first_ && position <= mirror_)) {
    if (position.version == seen_.sealed) written_ = seen_;
    return;
  }
  job.check_all = first_ && host_.writing_place() == 0;
  attempt_->goal = seen_;
  attempt_->position = position;
  running_ = true;
  access_.run([job = std::make_shared<const MirrorJob>(std::move(job)),
               attempt = attempt_](MirrorStore& store) { return run_pass(store, *job, attempt->there); },
              [this, weak = std::weak_ptr<int>(alive_)](Result<MirrorPassed> passed) {
                if (!weak.expired()) done(std::move(passed));
              });
}

void MirrorWriter::done(Result<MirrorPassed> passed) {
  running_ = false;
  if (!passed) {
    // What this node lacks, and what is damaged here, is not the mirror's fault, but said all the same, once.
    const Error& error = passed.error();
    if (error.code != ErrorCode::integrity && error.code != ErrorCode::not_found) return;
    again_ = host_.now() + patience_.poll;
    if (std::exchange(told_, error.message) != error.message) host_.event("mirror-failed", seen_.sealed, error.message);
    return;
  }
  told_.clear();
  first_ = false;
  mirror_ = std::max(mirror_, passed->position);
  if (attempt_->position.version == attempt_->goal.sealed) written_ = attempt_->goal;
  access_.stats().bytes_written += passed->uploaded;
  if (passed->objects > 0) {
    host_.event("mirror-written", passed->position.version,
                std::to_string(passed->uploaded) + " bytes in " + std::to_string(passed->objects) + " objects, " +
                    std::to_string(passed->removed) + " bundles removed");
  }
}

std::optional<Need> MirrorWriter::need() const {
  if (mirror_.version.value() == 0) return std::nullopt;
  const Version newest = host_.log().highest_sealed();
  const bool behind = newest > mirror_.version && newest.value() - mirror_.version.value() <= kHeldVersions;
  return behind ? std::optional<Need>({"the mirror", mirror_.version}) : std::nullopt;
}

}  // namespace p2pw
