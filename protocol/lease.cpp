#include "protocol/lease.h"

#include <algorithm>

namespace p2pw {

LeaseAnswer LeaseTable::ask(const BundleId& bundle, const Region& region, const NodeKey& asker, Epoch seen) {
  Entry& entry = entries_[bundle][region];
  if (entry.live && entry.lease.holder != asker) return {LeaseAnswer::Kind::refused, entry.lease};
  // A holder whose region has meanwhile seen a higher epoch (another upstream's) would be fenced under its
  // old one.
  const bool stands = entry.live && entry.lease.epoch >= seen;
  if (!stands) {
    entry.lease = {asker, std::max(entry.lease.epoch, seen).next()};
    entry.live = true;
  }
  return {LeaseAnswer::Kind::granted, entry.lease};
}

void LeaseTable::revoke(const BundleId& bundle, const Region& region, const NodeKey& holder) {
  const auto regions = entries_.find(bundle);
  if (regions == entries_.end()) return;
  const auto entry = regions->second.find(region);
  if (entry != regions->second.end() && entry->second.lease.holder == holder) entry->second.live = false;
}

void LeaseTable::revoke_all(const NodeKey& holder) {
  for (auto& [bundle, regions] : entries_) {
    for (auto& [region, entry] : regions) {
      if (entry.lease.holder == holder) entry.live = false;
    }
  }
}

std::optional<Lease> LeaseTable::holder(const BundleId& bundle, const Region& region) const {
  const auto regions = entries_.find(bundle);
  if (regions == entries_.end()) return std::nullopt;
  const auto entry = regions->second.find(region);
  if (entry == regions->second.end() || !entry->second.live) return std::nullopt;
  return entry->second.lease;
}

bool LeaseTable::in_force(const BundleId& bundle, const Region& region, const Lease& lease) const {
  return holder(bundle, region) == lease;
}

void LeaseTable::forget(const BundleId& bundle) {
  entries_.erase(bundle);
}

std::size_t LeaseTable::size() const {
  std::size_t count = 0;
  for (const auto& [bundle, regions] : entries_) count += regions.size();
  return count;
}

RegionLeases::Heard RegionLeases::hear(const BundleId& bundle, const Lease& lease) {
  if (entries_.size() >= kMaxBundles && !entries_.contains(bundle)) return Heard::known;
  Entry& entry = entries_[bundle];
  if (lease.epoch < entry.floor) return Heard::outranked;
  if (entry.lease && entry.lease->epoch == lease.epoch) {
    // Two upstreams may grant the same epoch while they do not see each other; the smaller key keeps it.
    if (entry.lease->holder == lease.holder) return Heard::known;
    if (entry.lease->holder < lease.holder) return Heard::outranked;
  }
  entry.lease = lease;
  entry.floor = lease.epoch;
  return Heard::news;
}

std::optional<Lease> RegionLeases::current(const BundleId& bundle) const {
  const auto entry = entries_.find(bundle);
  return entry == entries_.end() ? std::nullopt : entry->second.lease;
}

void RegionLeases::drop_holder(const NodeKey& holder) {
  for (auto& [bundle, entry] : entries_) {
    if (entry.lease && entry.lease->holder == holder) entry.lease.reset();
  }
}

void RegionLeases::drop(const BundleId& bundle) {
  const auto entry = entries_.find(bundle);
  if (entry != entries_.end()) entry->second.lease.reset();
}

Epoch RegionLeases::floor(const BundleId& bundle) const {
  const auto entry = entries_.find(bundle);
  return entry == entries_.end() ? Epoch() : entry->second.floor;
}

void RegionLeases::forget(const BundleId& bundle) {
  entries_.erase(bundle);
}

}  // namespace p2pw
