// One sweep: which slabs of the standby slot can be worked on now, and how far. Decides only; see rebuild.h for the rules.
//
// Threads: control thread. Every call costs the slabs it is about, rescan() all of them.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "chunker/slot_pair.h"
#include "daemon/core/rebuild_plan.h"

namespace p2pw {

class RebuildSweep {
 public:
  // A step of a slab's chain: the frame of path[run].
  struct Step {
    std::size_t run = 0;
    RebuildRun::FramePlace place;
    Digest digest;
  };
  struct Work {
    std::uint32_t slab = 0;
    std::size_t from = 0, reach = 0;  // places on the path
    std::optional<Digest> parent;     // none: the first step needs none
    std::vector<Step> steps;          // may be empty: the slab is only made sure of
  };

  // `base`: the table of plan.base, null for an anchor.
  RebuildSweep(RebuildPlan plan, std::shared_ptr<const CheckpointTable> base);

  const RebuildPlan& plan() const { return plan_; }
  const std::shared_ptr<const CheckpointTable>& base() const { return base_; }

  // The geometry is known and the slot open for patching: looks at what the slot's slabs are.
  void start(const Slot& slot);
  bool started() const { return !slabs_.empty() || started_; }

  void frame_arrived(std::uint32_t slab) { refresh(slab); }
  void rescan();  // a run's metas are complete, or slabs have changed behind the sweep's back

  // The next slab to work on; it is busy until done() or put_back().
  std::optional<Work> next();
  bool has_next() const { return !ready_.empty() || !unsure_.empty(); }
  void done(const Work& work);
  void put_back(std::uint32_t slab);          // the work failed; its contents may not be known now
  void lost(std::uint32_t slab);              // nobody here has it: not worked on until found()
  void found(std::uint32_t slab);
  void doubt(const std::vector<std::uint32_t>& slabs);  // finish() did not find them as wanted
  std::vector<std::uint32_t> lost_slabs() const;

  // Every slab is at the target.
  bool settled() const { return started_ && settled_ == slabs_.size(); }
  // Digests that a lost slab may come back with: place on the path and digest.
  std::vector<std::pair<Version, Digest>> wanted(std::uint32_t slab) const;

 private:
  struct SlabWork {
    std::uint32_t place = 0;  // runs passed
    bool unsure = false;      // must be looked at even when nothing is to be applied
    bool busy = false, queued = false, lost = false, settled = false;
  };
  Work work_for(std::uint32_t slab) const;
  bool worthwhile(const Work& work) const;
  void refresh(std::uint32_t slab);
  void place_by_digest(std::uint32_t slab, const Digest& digest);

  RebuildPlan plan_;
  std::shared_ptr<const CheckpointTable> base_;
  bool started_ = false;
  std::vector<SlabWork> slabs_;
  std::size_t settled_ = 0;
  std::deque<std::uint32_t> ready_, unsure_;  // with frames to apply; only to be looked at
};

}  // namespace p2pw
