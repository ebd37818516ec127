// What a follower still lacks, for whoever may have it besides its peers.
#include "daemon/core/follower.h"

namespace p2pw {

std::vector<Follower::AwaitedMeta> Follower::awaited_metas() const {
  std::vector<AwaitedMeta> out;
  for (const auto& [id, known] : known_) {
    if (known.open || known.asked == 0) continue;
    const Run* run = log_.run(known.run);
    const BundleRecord* record = run != nullptr ? run->bundle(known.index) : nullptr;
    if (record == nullptr || run->state() != RunState::sealed || !exchange_->wants(*run)) continue;
    out.push_back({id, *record, {channel(), known.run, known.index}, known.first_asked});
  }
  return out;
}

std::vector<std::shared_ptr<StoredBundle>> Follower::unfinished_bundles() const {
  std::vector<std::shared_ptr<StoredBundle>> out;
  for (const auto& [id, known] : known_) {
    if (!known.open) continue;
    auto stored = bundles_.find(id);
    const Run* run = log_.run(known.run);
    const bool wanted = run != nullptr && run->state() == RunState::sealed && exchange_->wants(*run);
    if (stored && wanted && !stored->file->complete()) out.push_back(std::move(stored));
  }
  return out;
}

// From the newest anchor at or below the version; empty: a record or a secret is missing.
std::vector<SlabWay::Step> Follower::steps_to(Version version) const {
  std::vector<SlabWay::Step> steps;
  for (const RunId& id : log_.lineage(version).value_or(std::vector<RunId>())) {
    const Run* run = log_.run(id);
    auto sealer = sealer_of(run->open());
    if (sealer == nullptr || run->state() != RunState::sealed) return {};
    SlabWay::Step& step = steps.emplace_back();
    step.sealer = std::move(sealer);
    for (const auto& [index, record] : run->bundles()) {
      step.bundles.emplace_back(id_as<BundleId>(record.id()), *record.as<BundleRecord>());
    }
  }
  return steps;
}

std::vector<Follower::StrandedSlab> Follower::stranded_slabs() const {
  std::vector<StrandedSlab> out;
  const auto layout = slots_->standby()->layout();
  for (const SlabExchange::Stranded& lost : exchange_->stranded()) {
    if (layout == nullptr || lost.slab >= layout->tensor_slabs().size()) continue;
    const Slab& slab = layout->tensor_slabs()[lost.slab];
    StrandedSlab stranded{{lost.slab, slab.dtype, slab.length, {}, {}}, lost.since};
    // The newest version that is sealed: its lineage passes the others.
    for (const auto& [version, digest] : lost.wanted) {
      stranded.way.wanted.insert(digest);
      if (auto steps = steps_to(version); !steps.empty()) stranded.way.steps = std::move(steps);
    }
    if (!stranded.way.steps.empty()) out.push_back(std::move(stranded));
  }
  return out;
}

}  // namespace p2pw
