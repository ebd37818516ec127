#include "daemon/core/rebuild_impl.h"

#include <algorithm>

namespace p2pw {

Rebuilder::Impl::Impl(SlotPair& slots, WorkPool& pool, RebuildEvents& events)
    : slots_(slots), pool_(pool), events_(events) {
  slots_.on_unpinned([this, post = pool.executor(), alive = std::weak_ptr<int>(alive_)] {
    post([this, alive] {
      if (!alive.expired() && sweep_ == nullptr) slots_changed();
    });
  });
}

const RunPtr* Rebuilder::Impl::find(const RunId& id) const {
  auto found = runs_.find(id);
  return found == runs_.end() ? nullptr : &found->second;
}

void Rebuilder::Impl::open_run(const RunId& id, const OpenRecord& open, std::shared_ptr<const FrameSealer> sealer) {
  if (runs_.contains(id)) return;
  auto run = RebuildRun::make(id, open, std::move(sealer));
  if (!run) {
    emit([this, id, version = open.version, error = run.error()] { events_.run_failed(id, version, error); });
    return;
  }
  runs_.emplace(id, *run);
  plan_stale_ = true;
  pump();
}

void Rebuilder::Impl::add_bundle(const BundleId& id, RebuildRun::Bundle bundle, const RunId& run_id) {
  const RunPtr* run = find(run_id);
  if (run == nullptr) return;
  ++arrivals_;
  std::uint32_t index = bundle.record.index.value();
  std::vector<std::uint32_t> slabs;
  if (Status added = (*run)->add_bundle(std::move(bundle), slabs); !added) {
    fail_run(*run, added.error());
    return;
  }
  bundles_.insert_or_assign(id, std::pair(*run, index));
  apply_arrivals(*run, slabs);
  metas_changed(*run);
  pump();
}

void Rebuilder::Impl::chunk_arrived(const BundleId& id, ChunkIndex chunk) {
  auto found = bundles_.find(id);
  if (found == bundles_.end()) return;
  ++arrivals_;
  auto& [run, index] = found->second;
  std::vector<std::uint32_t> slabs;
  run->chunk_arrived(index, chunk, slabs);
  apply_arrivals(run, slabs);
  pump();
}

void Rebuilder::Impl::apply_arrivals(const RunPtr& run, const std::vector<std::uint32_t>& slabs) {
  if (sweep_ == nullptr) return;
  const auto& path = sweep_->plan().path;
  if (std::find(path.begin(), path.end(), run) == path.end()) return;
  for (std::uint32_t slab : slabs) sweep_->frame_arrived(slab);
}

void Rebuilder::Impl::metas_changed(const RunPtr& run) {
  if (!run->metas_complete()) return;
  if (run->lacks_frames()) {
    fail_run(run, fail(ErrorCode::malformed, "anchor of version " + std::to_string(run->version().value()) +
                                              ": has no frame for some slabs"));
    return;
  }
  run->bytes_need_all_metas = false;
  if (sweep_ != nullptr) sweep_->rescan();
}

void Rebuilder::Impl::seal_run(const RunId& id, const SealRecord& seal, const SealHash& hash) {
  const RunPtr* run = find(id);
  if (run == nullptr || (*run)->sealed()) return;
  (*run)->seal(seal, hash);
  plan_stale_ = true;
  metas_changed(*run);
  pump();
}

void Rebuilder::Impl::drop_run(const RunId& id) {
  const RunPtr* run = find(id);
  if (run == nullptr) return;
  std::erase_if(bundles_, [&](const auto& entry) { return entry.second.first == *run; });
  runs_.erase(id);
  plan_stale_ = true;
  pump();
}

void Rebuilder::Impl::slots_changed() {
  plan_stale_ = true;
  pump();
}

void Rebuilder::Impl::avoid(std::set<RunId> runs) {
  if (avoided_ == runs) return;
  avoided_ = std::move(runs);
  plan_stale_ = true;
  pump();
}

void Rebuilder::Impl::retry() {
  blocked_ = false;
  if (sweep_ != nullptr) {
    for (std::uint32_t slab : sweep_->lost_slabs()) sweep_->found(slab);
  }
  pump();
}

void Rebuilder::Impl::slab_arrived(std::uint32_t slab, Bytes bytes, const Digest& digest) {
  if (sweep_ == nullptr || stage_ != Stage::working) return;
  auto lost = sweep_->lost_slabs();
  if (!std::binary_search(lost.begin(), lost.end(), slab)) return;
  auto shared = std::make_shared<Bytes>(std::move(bytes));
  task([slot = slot_, slab, shared, digest] { return slot->put(slab, *shared, digest); },
       [this, slab](const Status& put) {
         if (put && sweep_ != nullptr) sweep_->found(slab);
         if (put) emit([this, slab] { events_.slab_mended(slab); });
         if (!put && put.error().code == ErrorCode::integrity) report_lost(slab, put.error().message, true);
         if (!put && put.error().code != ErrorCode::integrity) block(put.error());
       });
}

void Rebuilder::Impl::offer_base(std::shared_ptr<const CheckpointTable> table, Version version, const SealHash& seal) {
  offer_ = Offer{std::move(table), version, seal};
  plan_stale_ = true;
  pump();
}

void Rebuilder::Impl::emit(std::function<void()> event) {
  pending_events_.push_back(std::move(event));
  if (in_task_ || delivery_posted_) return;
  delivery_posted_ = true;
  std::weak_ptr<int> alive = alive_;
  pool_.run([] {}, [this, alive] {
    if (!alive.expired()) deliver();
  });
}

void Rebuilder::Impl::deliver() {
  delivery_posted_ = false;
  std::weak_ptr<int> alive = alive_;
  for (auto& event : std::exchange(pending_events_, {})) {
    if (!alive.expired()) event();
  }
}

void Rebuilder::Impl::block(const Error& error) {
  if (std::exchange(blocked_, true)) return;
  emit([this, error] { events_.rebuild_blocked(error); });
}

void Rebuilder::Impl::fail_run(const RunPtr& run, Error error) {
  if (run->failed) return;
  run->failed = true;
  plan_stale_ = true;
  emit([this, id = run->id(), version = run->version(), error = std::move(error)] {
    events_.run_failed(id, version, error);
  });
}

void Rebuilder::Impl::report_lost(std::uint32_t slab, std::string reason, bool refused) {
  if (sweep_ == nullptr) return;
  bool expected = !refused && sweep_->plan().start == RebuildStart::neighbours;
  RebuildEvents::LostSlab lost{slab, sweep_->wanted(slab), std::move(reason), refused, expected};
  emit([this, lost = std::move(lost)] { events_.slab_lost(lost); });
}

Rebuilder::Rebuilder(SlotPair& slots, WorkPool& pool, RebuildEvents& events)
    : impl_(std::make_unique<Impl>(slots, pool, events)) {}
Rebuilder::~Rebuilder() = default;

void Rebuilder::open_run(const RunId& run, const OpenRecord& open, std::shared_ptr<const FrameSealer> sealer) {
  impl_->open_run(run, open, std::move(sealer));
}
void Rebuilder::add_bundle(const BundleId& id, const BundleRecord& record, std::shared_ptr<const BundleMeta> meta,
                           std::shared_ptr<BundleFile> file) {
  impl_->add_bundle(id, {id, record, std::move(meta), std::move(file), {}}, record.run);
}
void Rebuilder::chunk_arrived(const BundleId& id, ChunkIndex chunk) { impl_->chunk_arrived(id, chunk); }
void Rebuilder::seal_run(const RunId& run, const SealRecord& seal, const SealHash& hash) {
  impl_->seal_run(run, seal, hash);
}
void Rebuilder::drop_run(const RunId& run) { impl_->drop_run(run); }
void Rebuilder::slots_changed() { impl_->slots_changed(); }
void Rebuilder::retry() { impl_->retry(); }
void Rebuilder::slab_arrived(std::uint32_t slab, Bytes bytes, const Digest& digest) {
  impl_->slab_arrived(slab, std::move(bytes), digest);
}
void Rebuilder::offer_base(std::shared_ptr<const CheckpointTable> table, Version version, const SealHash& seal) {
  impl_->offer_base(std::move(table), version, seal);
}
bool Rebuilder::needs(const RunId& run) const {
  const auto* found = impl_->find(run);
  return found != nullptr && !impl_->avoids(run) && impl_->needs((*found)->version());
}
bool Rebuilder::has_all_of(const RunId& run) const {
  const auto* found = impl_->find(run);
  return found != nullptr && (*found)->complete();
}
void Rebuilder::avoid(std::set<RunId> runs) {
  impl_->avoid(std::move(runs));
}
std::uint64_t Rebuilder::arrivals() const {
  return impl_->arrivals();
}
bool Rebuilder::needs(Version version) const { return impl_->needs(version); }
RebuildProgress Rebuilder::progress() const { return impl_->progress(); }

}  // namespace p2pw
