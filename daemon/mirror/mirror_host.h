// What a channel's mirror sees of its node, and nothing else.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/core/bundle_store.h"
#include "daemon/mirror/mirror_plan.h"
#include "daemon/mirror/mirror_slab.h"
#include "daemon/spread/chunk_set.h"
#include "protocol/channel_log.h"

namespace p2pw {

class MirrorHost {
 public:
  struct MetaWanted {
    BundleId id;
    BundleRecord record;
    SteadyTime since;       // asked for on the links
    std::size_t place = 0;  // of this node in the region's line for this bundle
  };
  struct ChunksWanted {
    std::shared_ptr<StoredBundle> bundle;
    ChunkSet missing;  // in the region
    SteadyTime since;  // this node is to take them in, and no peer outside gives them
    Intake::Hope hope;
  };

  struct SlabWanted {
    SlabWay way;
    SteadyTime since;  // it is damaged here, and neighbours are asked
  };

  virtual ~MirrorHost() = default;
  virtual const ChannelLog& log() const = 0;
  virtual NodeKey self() const = 0;
  virtual SteadyTime now() const = 0;
  virtual WallTime wall_now() const = 0;
  virtual std::shared_ptr<const StoredBundle> stored(const BundleId& bundle) const = 0;
  virtual std::vector<MetaWanted> metas_wanted() const = 0;
  virtual std::vector<ChunksWanted> chunks_wanted() const = 0;  // older versions first
  virtual std::vector<SlabWanted> slabs_wanted() const = 0;
  // The bundle comes from the mirror, and no peer is to bring it: to be said again for as long as that is so.
  virtual void draw(const BundleId& bundle) = 0;
  // Lets this node take in what a neighbour should and does not get: bundles that have been quiet for long,
  // and for longer the further back this node's place is.
  virtual void claim_quiet(const MirrorPatience& patience,
                           const std::function<bool(const BundleId&)>& may) = 0;
  virtual bool hears_trainer() const = 0;         // its head is fresh: no news is kept from us
  virtual std::size_t place() const = 0;          // in the region's line for this channel
  virtual std::size_t writing_place() const = 0;  // in the fleet's

  // Errors: those of the verifier and the log; of the meta's check.
  virtual Status take_record(ByteView envelope) = 0;
  virtual Status take_meta(const BundleId& bundle, Bytes meta) = 0;
  // The chunk has been checked and written.
  virtual void chunk_put(const BundleId& bundle, ChunkIndex chunk) = 0;
  virtual void slab_found(std::uint32_t slab, SlabFound found) = 0;
  virtual void event(const std::string& event, Version version, const std::string& detail) = 0;
};

}  // namespace p2pw
