#include "daemon/mirror/mirror_reader.h"

#include <spdlog/spdlog.h>

namespace p2pw {
namespace {

// A range of chunks that came: those put, and what is wrong with the first that was not.
struct Ranged {
  std::vector<ChunkIndex> put;
  std::uint64_t bytes = 0;
  Status status;
};

Result<Ranged> read_range(MirrorStore& store, const std::string& name, const BundleRecord& record, BundleFile& file,
                          ChunkIndex first, std::uint32_t count) {
  const std::uint64_t offset = std::uint64_t(first.value()) * record.chunk_bytes;
  const std::uint64_t length =
      std::min<std::uint64_t>(std::uint64_t(count) * record.chunk_bytes, record.used_bytes - offset);
  P2PW_TRY(Bytes bytes, store.get_range(name, offset, length));
  Ranged out;
  out.bytes = length;
  ByteView rest(bytes);
  for (std::uint32_t i = 0; i < count; ++i) {
    const ChunkIndex chunk(first.value() + i);
    const ByteView used = rest.first(record.chunk_used(chunk));
    rest = rest.subspan(used.size());
    if (file.has(chunk)) continue;  // a peer was faster
    out.status = file.put(chunk, used);
    if (!out.status) break;
    out.put.push_back(chunk);
  }
  return out;
}

// The object is not what the publisher signed, and will not be in a moment.
bool is_wrong(ErrorCode code) {
  return code == ErrorCode::integrity || code == ErrorCode::malformed || code == ErrorCode::limit;
}

}  // namespace

MirrorReader::MirrorReader(MirrorHost& host, MirrorAccess& access, const MirrorPatience& patience)
    : host_(host),
      access_(access),
      patience_(patience),
      names_(host.log().verifier().channel(), host.log().verifier().publisher().id) {}

void MirrorReader::tick() {
  feed_records();
  if (!access_.may_try()) return;
  look_for_records();
  fetch_metas();
  fetch_chunks();
  fetch_slabs();
  host_.claim_quiet(patience_, [this](const BundleId& bundle) { return !left_alone(bundle); });
}

// Records.

void MirrorReader::look_for_records() {
  const SteadyTime now = host_.now();
  const bool nothing = host_.log().highest_sealed().value() == 0;
  if (!greeted_ || now - *greeted_ >= patience_.probe) return greet();
  if (!nothing && host_.hears_trainer()) {
    lonely_.reset();
    return;
  }
  if (!lonely_) lonely_ = now;
  if (reading_ || !records_.empty()) return;
  if (!turn_has_come(now, *lonely_, patience_.records, host_.place(), patience_.turn)) return;
  // What the first in line finds it passes on: the others look more seldom.
  const auto pause =
      (nothing ? patience_.first_poll : patience_.poll) * static_cast<int>(1 + std::min<std::size_t>(host_.place(), 20));
  if (polled_ && now - *polled_ < pause) return;
  polled_ = now;
  if (nothing) return read_records();
  read(names_.newest(), kMaxMirrorHint, [this](Result<Bytes> bytes) {
    auto hint = bytes ? MirrorPosition::parse(as_text(*bytes)) : Result<MirrorPosition>(bytes.error());
    if (!hint || hint->version <= host_.log().highest_sealed()) return;
    if (hint->version <= promised_ && host_.now() < promised_until_) return;
    promised_ = hint->version;
    promised_until_ = host_.now() + patience_.refused;
    read_records();
  });
}

void MirrorReader::read(const std::string& name, std::uint64_t most, std::function<void(Result<Bytes>)> done) {
  reading_ = true;
  access_.run([name, most](MirrorStore& store) { return store.get(name, most); },
              [this, weak = std::weak_ptr<int>(alive_), done = std::move(done)](Result<Bytes> bytes) {
                if (weak.expired()) return;
                reading_ = false;
                done(std::move(bytes));
              });
}

// Whether it is needed or not: that it cannot be read is to be heard of before the day on which it must be.
void MirrorReader::greet() {
  if (reading_) return;
  read(names_.newest(), kMaxMirrorHint, [this](Result<Bytes> bytes) {
    if (bytes.ok() || bytes.error().code == ErrorCode::not_found) greeted_ = host_.now();
  });
}

void MirrorReader::read_records() {
  read(names_.records(), kMaxMirrorRecords, [this](Result<Bytes> bytes) { got_records(std::move(bytes)); });
}

void MirrorReader::got_records(Result<Bytes> bytes) {
  if (!bytes) return;
  access_.stats().other_bytes_read += bytes->size();
  auto records = decode_records(*bytes);
  if (!records) {
    ++access_.stats().refused;
    host_.event("mirror-wrong", {}, names_.records() + ": " + records.error().message);
    return;
  }
  if (host_.log().highest_sealed().value() == 0) {
    host_.event("mirror-records", {}, std::to_string(records->size()) + " records, since no peer has any");
  }
  for (Bytes& record : *records) records_.push_back(std::move(record));
}

void MirrorReader::feed_records() {
  for (std::size_t i = 0; i < kRecordsAtOnce && !records_.empty(); ++i) {
    const Bytes envelope = std::move(records_.front());
    records_.pop_front();
    auto taken = host_.take_record(envelope);
    if (taken) continue;
    // Of a forger's there is no need to see more.
    ++access_.stats().refused;
    host_.event("mirror-wrong", {}, names_.records() + ": " + taken.error().message);
    spdlog::warn("mirror: {}: {}", names_.records(), taken.error().message);
    records_.clear();
    lonely_ = host_.now() + patience_.refused;
  }
}

// Metas and chunks.

bool MirrorReader::left_alone(const BundleId& bundle) const {
  auto it = refused_.find(bundle);
  return it != refused_.end() && host_.now() < it->second;
}

void MirrorReader::refuse(const BundleId& bundle, Version version, const Error& error) {
  const bool wrong = is_wrong(error.code);
  // Anything else may be better soon: it is not there yet, the connection broke, this disk is full.
  refused_[bundle] = host_.now() + (wrong ? std::chrono::milliseconds(patience_.refused) : patience_.again);
  if (wrong) ++access_.stats().refused;
  if (wrong || error.code == ErrorCode::not_found) {
    host_.event(wrong ? "mirror-wrong" : "mirror-lacks", version, names_.bundle(bundle) + ": " + error.message);
  }
  spdlog::warn("mirror: {}: {}", names_.bundle(bundle), error.message);
}

void MirrorReader::fetch_metas() {
  if (running_ >= kAtOnce) return;
  const SteadyTime now = host_.now();
  for (const MirrorHost::MetaWanted& wanted : host_.metas_wanted()) {
    if (running_ >= kAtOnce) return;
    if (metas_.contains(wanted.id) || left_alone(wanted.id)) continue;
    if (!turn_has_come(now, wanted.since, patience_.meta, wanted.place, patience_.turn)) continue;
    metas_.insert(wanted.id);
    ++running_;
    access_.run(
        [name = names_.meta(wanted.id), most = wanted.record.meta_bytes](MirrorStore& store) {
          return store.get(name, most);
        },
        [this, weak = std::weak_ptr<int>(alive_), id = wanted.id, version = wanted.record.version](Result<Bytes> meta) {
          if (weak.expired()) return;
          --running_;
          metas_.erase(id);
          if (meta) access_.stats().other_bytes_read += meta->size();
          Status taken = meta ? host_.take_meta(id, std::move(*meta)) : Status(meta.error());
          if (!taken) refuse(id, version, taken.error());
        });
  }
}

void MirrorReader::fetch_chunks() {
  const SteadyTime now = host_.now();
  for (const MirrorHost::ChunksWanted& wanted : host_.chunks_wanted()) {
    const BundleId& id = wanted.bundle->id;
    if (left_alone(id) || now - wanted.since < chunk_patience(wanted.hope, patience_)) continue;
    host_.draw(id);
    fetch_missing(wanted);
  }
}

void MirrorReader::fetch_missing(const MirrorHost::ChunksWanted& wanted) {
  const auto& bundle = wanted.bundle;
  const std::set<std::uint32_t>& coming = chunks_[bundle->id];
  const std::uint32_t most =
      static_cast<std::uint32_t>(std::max<std::uint64_t>(1, kRangeBytes / bundle->record.chunk_bytes));
  auto free = [&](std::uint32_t i) {
    return wanted.missing.has(ChunkIndex(i)) && !bundle->file->has(ChunkIndex(i)) && !coming.contains(i);
  };
  for (std::uint32_t i = 0; i < wanted.missing.size() && running_ < kAtOnce;) {
    std::uint32_t count = 0;
    while (count < most && i + count < wanted.missing.size() && free(i + count)) ++count;
    if (count > 0) fetch_range(bundle, ChunkIndex(i), count);
    i += std::max(count, 1u);
  }
  if (chunks_[bundle->id].empty()) chunks_.erase(bundle->id);
}

void MirrorReader::fetch_slabs() {
  const SteadyTime now = host_.now();
  std::erase_if(slabs_, [now](const auto& entry) { return entry.second <= now; });
  for (MirrorHost::SlabWanted& wanted : host_.slabs_wanted()) {
    if (running_ >= kAtOnce) return;
    const std::uint32_t slab = wanted.way.slab;
    if (now - wanted.since < patience_.slab || !slabs_.emplace(slab, now + patience_.poll).second) continue;
    ++running_;
    auto way = std::make_shared<const SlabWay>(std::move(wanted.way));
    access_.run(
        [names = names_, way, metas = metas_read_](MirrorStore& store) { return fetch_slab(store, names, *way, *metas); },
        [this, weak = std::weak_ptr<int>(alive_), slab](Result<SlabFound> found) {
          if (weak.expired()) return;
          --running_;
          const std::string what = "tensor slab " + std::to_string(slab);
          if (found) {
            access_.stats().chunk_bytes_read += found->read;
            host_.event("mirror-slab", {}, what + ", " + std::to_string(found->read) + " bytes read");
            return host_.slab_found(slab, std::move(*found));
          }
          const ErrorCode code = found.error().code;
          const bool wrong = is_wrong(code);
          if (wrong) ++access_.stats().refused;
          if (wrong) slabs_[slab] = host_.now() + patience_.refused;
          if (wrong || code == ErrorCode::not_found || code == ErrorCode::incomplete) {
            host_.event(wrong ? "mirror-wrong" : "mirror-lacks", {}, what + ": " + found.error().message);
          }
        });
  }
}

void MirrorReader::fetch_range(const std::shared_ptr<StoredBundle>& bundle, ChunkIndex first, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) chunks_[bundle->id].insert(first.value() + i);
  ++running_;
  access_.run([name = names_.bundle(bundle->id), file = bundle->file, record = bundle->record, first,
               count](MirrorStore& store) { return read_range(store, name, record, *file, first, count); },
              [this, weak = std::weak_ptr<int>(alive_), id = bundle->id, version = bundle->record.version, first,
               count](Result<Ranged> range) {
                if (weak.expired()) return;
                --running_;
                auto& coming = chunks_[id];
                for (std::uint32_t i = 0; i < count; ++i) coming.erase(first.value() + i);
                if (coming.empty()) chunks_.erase(id);
                if (!range) return refuse(id, version, range.error());
                access_.stats().chunk_bytes_read += range->bytes;
                for (ChunkIndex chunk : range->put) host_.chunk_put(id, chunk);
                if (!range->status) refuse(id, version, range->status.error());
              });
}

}  // namespace p2pw
