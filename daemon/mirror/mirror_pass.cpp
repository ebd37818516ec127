#include "daemon/mirror/mirror_pass.h"

#include <algorithm>

#include "protocol/hash.h"

namespace p2pw {
namespace {

std::string text_of(Version version) { return "version " + std::to_string(version.value()); }

MirrorRun run_of(const Run& run, const FindBundle& find) {
  MirrorRun out;
  out.id = run.id();
  out.version = run.version();
  out.previous = run.previous();
  out.kind = run.open().kind;
  out.again = run.again();
  out.previous_seal = run.open().previous_seal;
  out.records.push_back(run.open_record().envelope());
  for (const auto& [index, record] : run.bundles()) {
    const BundleId id = id_as<BundleId>(record.id());
    out.bundles.push_back({id, *record.as<BundleRecord>(), find(id)});
    out.records.push_back(record.envelope());
  }
  out.records.push_back(run.seal_record()->envelope());
  return out;
}

bool is_here(const MirrorRun& run) {
  return std::all_of(run.bundles.begin(), run.bundles.end(), [](const MirrorBundle& b) { return b.stored != nullptr; });
}

// One pass over one store; a class only for what its steps share.
class Pass {
 public:
  Pass(MirrorStore& store, const MirrorJob& job, std::set<BundleId>& there) : store_(store), job_(job), there_(there) {}

  Result<MirrorPassed> run() {
    const MirrorPosition goal = job_.position();
    if (!job_.check_all) {
      P2PW_TRY(MirrorPosition now, hint());
      if (now >= goal) return MirrorPassed{now};
    }
    P2PW_CHECK(read_old());
    const MirrorRun* lacking = nullptr;
    const MirrorRun* start = start_of_lineage(
        job_.runs, [this](const MirrorRun& run) { return available(run); }, &lacking);
    if (!failed_) return failed_.error();
    if (start == nullptr) {
      return fail(ErrorCode::not_found, lacking == nullptr ? "this node knows no anchor"
                                                           : "bundles of " + text_of(lacking->version) +
                                                                 " are neither on this node nor in the mirror");
    }
    for (const MirrorRun& run : job_.runs) {
      const bool needed = run.id == start->id || (!run.again && run.version > start->version);
      if (needed) P2PW_CHECK(upload(run));
    }
    const Version from = keep_from(*start);
    P2PW_CHECK(remove_older(from));
    P2PW_CHECK(write_records(from, *start));
    passed_.position = {goal.version, start->version, goal.certified};
    const std::string line = passed_.position.text();
    P2PW_CHECK(store_.put(job_.names.newest(), body_of(as_bytes(line))));
    return passed_;
  }

 private:
  Result<MirrorPosition> hint() {
    auto bytes = store_.get(job_.names.newest(), kMaxMirrorHint);
    if (!bytes && bytes.error().code != ErrorCode::not_found) return bytes.error();
    auto position = MirrorPosition::parse(bytes ? as_text(*bytes) : "");
    return position ? *position : MirrorPosition();  // nonsense: write it anew
  }

  // What the mirror says that it holds. Only what the publisher signed counts.
  Status read_old() {
    auto bytes = store_.get(job_.names.records(), kMaxMirrorRecords);
    if (!bytes) return bytes.error().code == ErrorCode::not_found ? Status() : Status(bytes.error());
    auto envelopes = decode_records(*bytes);
    if (!envelopes) return {};
    for (const Bytes& envelope : *envelopes) {
      auto record = job_.verifier.verify(envelope, job_.now);
      const BundleRecord* bundle = record ? record->as<BundleRecord>() : nullptr;
      if (bundle != nullptr) old_[id_as<BundleId>(record->id())] = bundle->version;
    }
    return {};
  }

  bool in_mirror(const MirrorBundle& bundle) {
    if (there_.contains(bundle.id)) return true;
    auto same = [this](const std::string& name, std::uint64_t bytes) {
      auto size = store_.size(name);
      if (!size && size.error().code != ErrorCode::not_found && failed_) failed_ = size.error();
      return size.ok() && *size == bytes;
    };
    const bool whole = same(job_.names.meta(bundle.id), bundle.record.meta_bytes) &&
                       same(job_.names.bundle(bundle.id), bundle.record.used_bytes);
    if (whole) there_.insert(bundle.id);
    return whole;
  }

  bool available(const MirrorRun& run) {
    return std::all_of(run.bundles.begin(), run.bundles.end(),
                       [this](const MirrorBundle& b) { return b.stored != nullptr || in_mirror(b); });
  }

  Status upload(const MirrorRun& run) {
    for (const MirrorBundle& bundle : run.bundles) {
      const bool whole = in_mirror(bundle);
      if (!failed_) return failed_;
      if (whole) continue;
      P2PW_TRY(MirrorBody body, checked_body(bundle));
      P2PW_CHECK(store_.put(job_.names.bundle(bundle.id), body));
      P2PW_CHECK(store_.put(job_.names.meta(bundle.id), body_of(bundle.stored->encoded_meta)));
      passed_.uploaded += bundle.record.used_bytes + bundle.record.meta_bytes;
      passed_.objects += 2;
      there_.insert(bundle.id);
    }
    return {};
  }

  // A damaged object would stand there for good: nobody looks at it again before it is needed.
  static Result<MirrorBody> checked_body(const MirrorBundle& bundle) {
    Sha256Stream hash;
    const std::shared_ptr<const BundleFile> file = bundle.stored->file;
    for (std::uint32_t i = 0; i < file->chunk_count(); ++i) {
      auto chunk = file->checked_chunk(ChunkIndex(i));
      if (!chunk && chunk.error().code == ErrorCode::integrity) {
        return fail(ErrorCode::integrity, "bundle " + bundle.id.short_hex() + " of " + text_of(bundle.record.version) +
                                              " is damaged on this disk and is not put into the mirror");
      }
      if (!chunk) return chunk.error();
      hash.add(*chunk);
    }
    MirrorBody body;
    body.bytes = bundle.record.used_bytes;
    body.read = [file](std::uint64_t offset, std::span<std::byte> out) { return file->read(offset, out); };
    body.hash = hash.finish();
    return body;
  }

  // The anchor before the last one, if the mirror has it.
  Version keep_from(const MirrorRun& start) const {
    Version from = start.version;
    for (const MirrorRun& run : job_.runs) {
      const bool older = run.kind == Kind::anchor && run.version < start.version;
      const bool held =
          std::all_of(run.bundles.begin(), run.bundles.end(), [this](auto& b) { return old_.contains(b.id); });
      if (older && held) from = run.version;
    }
    return from;
  }

  // Before the records that no longer name them: after a crash the next pass still finds them there.
  Status remove_older(Version from) {
    for (const auto& [id, version] : old_) {
      if (version >= from) continue;
      P2PW_CHECK(store_.remove(job_.names.meta(id)));
      P2PW_CHECK(store_.remove(job_.names.bundle(id)));
      there_.erase(id);
      ++passed_.removed;
    }
    return {};
  }

  Status write_records(Version from, const MirrorRun& start) {
    std::vector<Bytes> envelopes = job_.delegate;
    bool first = true;
    for (const MirrorRun& run : job_.runs) {
      if (run.version < from) continue;
      // The seal below closes the chain for whoever has nothing older.
      auto below = job_.seals.find(run.previous_seal);
      if (std::exchange(first, false) && below != job_.seals.end()) envelopes.push_back(below->second);
      const bool held = std::all_of(run.bundles.begin(), run.bundles.end(),
                                    [this](auto& b) { return old_.contains(b.id) || there_.contains(b.id); });
      if (run.again && run.id != start.id && !held) continue;
      envelopes.insert(envelopes.end(), run.records.begin(), run.records.end());
    }
    for (auto it = job_.certificates.lower_bound(from); it != job_.certificates.end(); ++it)
      envelopes.push_back(it->second);
    const Bytes bytes = encode_records(envelopes);
    if (bytes.size() > kMaxMirrorRecords) return fail(ErrorCode::limit, "the records are larger than readers take");
    return store_.put(job_.names.records(), body_of(bytes));
  }

  MirrorStore& store_;
  const MirrorJob& job_;
  std::set<BundleId>& there_;
  std::map<BundleId, Version> old_;
  MirrorPassed passed_;
  Status failed_;  // of a question whose answer was taken for "no"
};

}  // namespace

MirrorPosition MirrorJob::position() const {
  MirrorPosition position;
  for (const MirrorRun& run : runs) {
    position.version = std::max(position.version, run.version);
    if (run.kind == Kind::anchor && is_here(run)) position.anchor = std::max(position.anchor, run.version);
  }
  auto newest = certificates.upper_bound(position.version);
  if (newest != certificates.begin()) position.certified = std::prev(newest)->first;
  return position;
}

MirrorJob mirror_job(const ChannelLog& log, WallTime now, const FindBundle& find) {
  const RecordVerifier& verifier = log.verifier();
  MirrorJob job{.names = MirrorNames(verifier.channel(), verifier.publisher().id),
                .verifier = verifier,
                .now = now,
                .runs = {},
                .seals = {},
                .delegate = {},
                .certificates = {}};
  // The lineage begins at the newest anchor, or at the one before if that is nowhere; one more is kept besides.
  constexpr std::size_t kAnchors = 3;
  Version whole;  // the newest version of the chain that is here
  const auto anchors = log.anchors();
  const Version oldest = anchors.size() > kAnchors ? anchors[anchors.size() - kAnchors]->version() : Version();
  for (const VerifiedRecord* record : log.all()) {
    if (record->as<DelegateRecord>() != nullptr) job.delegate = {record->envelope()};
    if (record->as<SealRecord>() != nullptr) job.seals[id_as<SealHash>(record->id())] = record->envelope();
    if (auto* certificate = record->as<CertifyRecord>()) job.certificates[certificate->version] = record->envelope();
    if (record->as<OpenRecord>() == nullptr) continue;
    const Run* run = log.run(id_as<RunId>(record->id()));
    if (run == nullptr || run->state() != RunState::sealed || run->version() < oldest) continue;
    job.runs.push_back(run_of(*run, find));
    if (!run->again() && is_here(job.runs.back())) whole = std::max(whole, run->version());
  }
  std::erase_if(job.runs, [whole](const MirrorRun& run) { return run.version > whole; });
  std::erase_if(job.certificates, [whole](const auto& entry) { return entry.first > whole; });
  std::stable_sort(job.runs.begin(), job.runs.end(), [](const MirrorRun& a, const MirrorRun& b) {
    return std::pair(a.version, a.again) < std::pair(b.version, b.again);
  });
  return job;
}

const MirrorRun* start_of_lineage(const std::vector<MirrorRun>& runs,
                                  const std::function<bool(const MirrorRun&)>& available, const MirrorRun** lacking) {
  // From the newest version down: everything above `run` in the chain is available.
  const MirrorRun* above = nullptr;
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    if (run->again) {
      // It stands behind its version's own run: what is above it in the chain begins after this version.
      const bool joins = above == nullptr || above->previous == run->version;
      if (joins && available(*run)) return &*run;
      continue;
    }
    if (above != nullptr && above->previous != run->version) return nullptr;
    if (!available(*run)) {
      *lacking = &*run;
      return nullptr;
    }
    if (run->kind == Kind::anchor) return &*run;
    above = &*run;
  }
  return nullptr;
}

Result<MirrorPassed> run_pass(MirrorStore& store, const MirrorJob& job, std::set<BundleId>& there) {
  return Pass(store, job, there).run();
}

}  // namespace p2pw
