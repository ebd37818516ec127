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

}  // namespace p2pw
