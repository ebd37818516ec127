// What a follower does about a slab of its active slot that somebody found damaged.
#include <spdlog/spdlog.h>

#include "daemon/core/follower.h"

namespace p2pw {
namespace {

// Whether the slab's bytes in this slot are not those of its table.
bool is_damaged(const Slot& slot, std::uint32_t slab) {
  const auto table = slot.table();
  if (table == nullptr || slab >= table->tensors.size()) return false;
  Bytes bytes;
  return !slot.read(slab, bytes) || codec::digest_of(bytes) != table->tensors[slab];
}

}  // namespace

void Follower::doubt_active(SlabId slab) {
  if (slab.is_bytes()) return;  // what a slot has of those is written anew with the next version
  const SlotPin pin = slots_->pin_active();
  const std::shared_ptr<Slot> standby = slots_->standby();
  if (!pin) return;
  const bool both = standby->staged() && standby->version() == pin->version();
  pools_.work.run(
      [pin, standby, both, index = slab.index()] {
        return std::pair(is_damaged(*pin, index), both && is_damaged(*standby, index));
      },
      [this, weak = std::weak_ptr<int>(alive_), version = pin->version(),
       index = slab.index()](std::pair<bool, bool> damaged) {
        if (weak.expired()) return;
        if (damaged.first && version_current() == version) active_is_damaged(index, damaged.second);
      });
}

void Follower::active_is_damaged(std::uint32_t slab, bool standby_too) {
  const std::shared_ptr<Slot> active = slots_->active(), standby = slots_->standby();
  problem_ = "tensor slab " + std::to_string(slab) + " of version " +
             std::to_string(active->version().value()) + " is damaged in the active slot";
  spdlog::error("channel {}: {}", channel().str(), problem_);
  host_.event(channel(), "slab-lost", active->version(), problem_);
  active->distrust(slab);
  if (standby_too) standby->distrust(slab);
  // A standby that holds the same version takes the active one's place at once; another one when it is mended
  // or has caught up.
  auto staged = standby->staged();
  if (staged && staged->version() == active->version() && !standby->distrusted()) {
    take_mended(*staged);
  }
  rebuilder_->slots_changed();
  host_.state_changed(channel());
}

// The same version in the other slot.
void Follower::take_mended(const StagedVersion& mended) {
  host_.event(channel(), "mended", mended.version(), "slot " + std::string(name_of(mended.slot())));
  activation_->activate(mended, host_.steady_now());
}

}  // namespace p2pw
