// Rebuilds the versions of one channel in its standby slot, from frames as they arrive.
//
// A sweep leads the standby slot from the version it holds to a target version, along a path of runs (deltas, or an
// anchor and deltas). For each slab the path gives a chain of frames; a slab is worked on when its chain can be walked as
// far as it makes sense: to the target, or up to what is active already (catching up, in the background). So a frame
// of the newest version is applied the moment its chunks are in, and a slot that lags reads and writes each slab once.
// The target is the newest sealed version, or the one in flight when nothing older is missing; it stays until it is
// staged. A slab that is on none of the chain's contents is copied from the other slot; what cannot be had there is
// reported as lost. A dead run's slabs are led back the same way.
//
// A node that has nothing, or is too far behind, starts from the table of a version that its neighbours hold
// (offer_base): every slab is then reported as lost, arrives at whatever version its giver has, and is brought forward
// by the deltas since. Which way is taken is the planner's choice (rebuild_plan.h).
//
// Byte slabs (file table, headers, side files) of a run are decoded in one go, before the first tensor slab of an
// anchor; see chunker/checkpoint_table.h.
//
// Threads: control thread only; work runs on the pool, at most 2 tasks for each of its threads at once, each with one
// sealed frame, one frame in the clear and one slab in memory. Events are raised on the control thread, never from
// inside a call to the Rebuilder.
#pragma once

#include <memory>
#include <optional>
#include <set>

#include "chunker/bundle_file.h"
#include "chunker/slot_pair.h"
#include "daemon/core/work_pool.h"
#include "protocol/record.h"
#include "protocol/sealing.h"

namespace p2pw {

class RebuildEvents {
 public:
  virtual ~RebuildEvents() = default;
  // The standby holds this version, complete and synced. Until the slots have changed (activation) it is left alone.
  virtual void version_staged(const StagedVersion& staged) = 0;
  // The standby has been brought to the active version: deltas up to it are no longer needed.
  virtual void standby_caught_up(Version version) = 0;
  // This slab of the standby is damaged and the other slot cannot help. Wanted: its bytes at any version that `wanted`
  // lists, through slab_arrived(). Reported again after retry().
  struct LostSlab {
    std::uint32_t slab = 0;
    std::vector<std::pair<Version, Digest>> wanted;  // oldest first
    std::string reason;
    bool refused = false;   // what slab_arrived() brought had not the digest that it came under
    bool expected = false;  // every slab of a copy from the neighbours begins like this
  };
  virtual void slab_lost(const LostSlab& lost) = 0;
  // What slab_arrived() brought is in place.
  virtual void slab_mended(std::uint32_t) {}
  // A frame whose chunks had passed their check does not open any more: the bundle file is damaged. Open the file anew,
  // which finds out which chunks are still good, hand it over with add_bundle() again, and fetch the others.
  virtual void bundle_damaged(const BundleId& bundle, FrameIndex frame, const Error& error) = 0;
  // What the publisher signed cannot be rebuilt (does not decode, does not hash to its seal, not the parent it names).
  virtual void run_failed(const RunId& run, Version version, const Error& error) = 0;
  // The disk is full or fails. Nothing is lost; work goes on after retry().
  virtual void rebuild_blocked(const Error& error) = 0;
};

struct RebuildProgress {
  Version target;                 // 0: nothing to do
  bool catching_up = false;       // the target is active already
  bool blocked = false;           // waits for retry()
  bool waiting_for_slot = false;  // the standby is held or pinned
  std::uint64_t frames_known = 0, frames_arrived = 0, frames_applied = 0;  // of the target's run
  std::uint64_t slabs_refilled = 0, slabs_lost = 0;                        // since the start
  std::uint32_t tasks = 0;                                                 // in the pool now
  bool copying = false;           // from the neighbours
};

class Rebuilder {
 public:
  Rebuilder(SlotPair& slots, WorkPool& pool, RebuildEvents& events);
  ~Rebuilder();
  Rebuilder(const Rebuilder&) = delete;

  // A run begins. `sealer` opens its frames. Known runs are ignored.
  void open_run(const RunId& run, const OpenRecord& open, std::shared_ptr<const FrameSealer> sealer);
  // A bundle of a known run, with its decoded meta; chunks that `file` has count as arrived. Again for a known bundle:
  // `file` takes the place of the one before.
  void add_bundle(const BundleId& id, const BundleRecord& record, std::shared_ptr<const BundleMeta> meta,
                  std::shared_ptr<BundleFile> file);
  void chunk_arrived(const BundleId& id, ChunkIndex chunk);
  void seal_run(const RunId& run, const SealRecord& seal, const SealHash& hash);
  // Dead or no longer wanted: forgets it and undoes what it did to the standby.
  void drop_run(const RunId& run);

  // The slots have changed places, or the standby was released: go on. (That it was unpinned is seen here.)
  void slots_changed();
  // After rebuild_blocked(), lost slabs or a damaged bundle: try again (a timer, or room on the disk).
  void retry();
  // The neighbours hold this version: a way to start from nothing. Its byte slabs lie in the byte store.
  void offer_base(std::shared_ptr<const CheckpointTable> table, Version version, const SealHash& seal);
  // The bytes of a lost slab.
  void slab_arrived(std::uint32_t slab, Bytes bytes, const Digest& digest);

  // Nobody has these: no way leads through them. The latest call counts.
  void avoid(std::set<RunId> runs);

  // Bundles of this run may still be read: its version is beyond what one of the slots holds.
  bool needs(const RunId& run) const;
  bool needs(Version version) const;
  bool has_all_of(const RunId& run) const;
  std::uint64_t arrivals() const;  // grows with every bundle and chunk that comes in
  RebuildProgress progress() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace p2pw
