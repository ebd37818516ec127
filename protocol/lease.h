// A lease is the right to take one bundle into one region. An upstream grants at most one live lease for each (bundle,
// region), so it never sends two copies; its epoch rises with every change of holder, so a late holder is recognised and
// stopped. Pure state: no clock, no sockets. One LeaseTable per upstream; one RegionLeases view per node.
#pragma once

#include <map>
#include <unordered_map>

#include "protocol/ids.h"

namespace p2pw {

struct Lease {
  NodeKey holder;
  Epoch epoch;
  auto operator<=>(const Lease&) const = default;
};

struct LeaseAnswer {
  enum class Kind { granted, refused } kind = Kind::refused;
  Lease lease;  // the one in force now: the asker's when granted, the other holder's when refused
};

// The upstream's side.
class LeaseTable {
 public:
  // `asker` asks with the highest epoch that its region has seen. Granted when nobody holds the lease, when the asker
  // holds it already (the same epoch again, unless its region has seen a higher one), or when the holder was revoked; a
  // new grant gets an epoch above every one seen.
  LeaseAnswer ask(const BundleId& bundle, const Region& region, const NodeKey& asker, Epoch seen);
  // The holder is suspect, dead or stalled: the next asker gets the lease. Nothing happens if it is not the holder.
  void revoke(const BundleId& bundle, const Region& region, const NodeKey& holder);
  void revoke_all(const NodeKey& holder);
  // Nothing when nobody holds it.
  std::optional<Lease> holder(const BundleId& bundle, const Region& region) const;
  // May `sender` still be given / accepted for chunks under `epoch`?
  bool in_force(const BundleId& bundle, const Region& region, const Lease& lease) const;
  void forget(const BundleId& bundle);
  std::size_t size() const;

 private:
  struct Entry {
    Lease lease;
    bool live = false;
  };
  std::unordered_map<BundleId, std::map<Region, Entry>> entries_;
};

// A region's own side: what has been announced on its links.
class RegionLeases {
 public:
  static constexpr std::size_t kMaxBundles = 1u << 17;  // announcements of further ones are not kept
  enum class Heard { news, known, outranked };
  // An announcement of (bundle, lease). `outranked`: a higher epoch, or the same epoch with a holder of a smaller key,
  // is known already; its sender must stop.
  Heard hear(const BundleId& bundle, const Lease& lease);
  std::optional<Lease> current(const BundleId& bundle) const;
  void drop_holder(const NodeKey& holder);  // left or dead: its leases are free, their epochs stay as a floor
  void drop(const BundleId& bundle);  // its lease is free, its epoch stays as a floor
  Epoch floor(const BundleId& bundle) const;
  void forget(const BundleId& bundle);

 private:
  struct Entry {
    std::optional<Lease> lease;
    Epoch floor;
  };
  std::unordered_map<BundleId, Entry> entries_;
};

}  // namespace p2pw
