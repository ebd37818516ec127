// One tensor slab out of a mirror, for a node whose own copies are damaged and whose neighbours cannot help: the slab's
// frame in an anchor, and its frames in the deltas since, read by their ranges. Costs the metas of that lineage and a few
// frames, not the lineage.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "chunker/dtype.h"
#include "daemon/mirror/mirror_names.h"
#include "daemon/mirror/mirror_store.h"
#include "protocol/sealing.h"

namespace p2pw {

struct SlabWay {
  std::uint32_t slab = 0;
  Dtype dtype = Dtype::bytes;
  std::uint32_t bytes = 0;  // its size
  std::set<Digest> wanted;  // any of these contents is of use
  struct Step {
    std::shared_ptr<const FrameSealer> sealer;
    std::vector<std::pair<BundleId, BundleRecord>> bundles;
  };
  std::vector<Step> steps;  // an anchor and the deltas since, oldest first
};

struct SlabFound {
  Bytes bytes;
  Digest digest;           // one of those wanted, checked
  std::uint64_t read = 0;  // bytes of frames and metas
};

// Decoded metas, since several slabs are likely to be in the same bundles. Any thread.
class MetaCache {
 public:
  static constexpr std::size_t kMost = 64;
  std::shared_ptr<const BundleMeta> find(const BundleId& id) const;
  void add(const BundleId& id, std::shared_ptr<const BundleMeta> meta);

 private:
  mutable std::mutex mutex_;
  std::map<BundleId, std::shared_ptr<const BundleMeta>> metas_;
};

// Blocks. Errors: those of the store; integrity and malformed (what lies there is not what was signed); incomplete (the way
// leads past everything that is wanted).
Result<SlabFound> fetch_slab(MirrorStore& store, const MirrorNames& names, const SlabWay& way, MetaCache& metas);

}  // namespace p2pw
