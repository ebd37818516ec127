// A slot: one complete local checkpoint directory that is always at an exact, known version, or knows which of its slabs
// are not. A node has two for each followed channel; only the standby one is ever patched, in place.
//
//   <slot>/checkpoint/   the Hugging Face directory
//   <slot>/state         what the slot holds (slot_state.h), replaced atomically
//
// How it stays exact. The state file says `patching` before the first byte changes and `whole` only after everything is
// synced, with the digest of every slab. In between a slab is its old self, its new self, or damaged, and its digest
// tells which: equal to the one wanted - done; equal to one of the chain - decode from there; otherwise it needs a
// refill, which is reported, never guessed. Inside one process the digests are remembered, so a slab is hashed once,
// after its decoding; after a crash it is hashed before, too. Headers and side files are written by finish() from the
// byte store, so nothing of them has to be known. A checkpoint's tensor files are created at full size with their room
// reserved before the first tensor slab is written.
//
// Files in memory (tmpfs) are decoded straight in a shared mapping, so only changed cache lines are written; others are
// read, decoded in a buffer and written back.
//
// Threads: apply(), check(), refill(), put(), read() on any thread, each slab on one at a time; open(), begin_*(),
// set_layout() and finish() while no such call is running. Queries: any thread. Everything that takes a Slot on a pool
// thread holds a shared_ptr to it.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>

#include "chunker/checkpoint_table.h"
#include "chunker/slot_files.h"
#include "chunker/slot_state.h"

namespace p2pw {

// A version that stands complete in a slot: every slab has the digest that its sealed table states, everything is
// synced. Only Slot makes one.
class StagedVersion {
 public:
  Version version() const { return version_; }
  const SealHash& seal() const { return seal_; }
  const Sha256& table_hash() const { return table_hash_; }
  SlotName slot() const { return slot_; }

 private:
  friend class Slot;
  StagedVersion() = default;
  Version version_;
  SealHash seal_;
  Sha256 table_hash_;
  SlotName slot_ = SlotName::a;
};

// The way of one tensor slab from one known content to another: frames, oldest first.
struct SlabChain {
  std::optional<Digest> parent;  // before the first step; none: the first step needs no parent
  std::vector<Digest> after;     // after each step; the last one is the goal. Empty: only the parent is checked
  // The frame of a step in the clear, valid until the next call. Called in order, and only for the steps still needed.
  std::function<Result<ByteView>(std::size_t step)> frame;

  const Digest& goal() const { return after.empty() ? *parent : after.back(); }
  // 0 = the parent, i + 1 = after step i; the furthest place when several are equal.
  std::optional<std::size_t> place_of(const Digest& digest) const;
};

struct Applied {
  bool done = false;        // the slab has the chain's goal; false: it needs a refill, `reason` says why
  std::size_t steps = 0;    // decoded; 0 when it was there already
  std::uint64_t changed_elements = 0;
  std::string reason;
};

// What one thread needs to work on slabs; reuse it.
struct SlabScratch {
  codec::SlabDecoder decoder;
  Bytes slab;
};

class Slot {
 public:
  enum class Phase : std::uint8_t {
    empty,     // nothing is known of the contents
    patching,  // on the way to another version
    whole,     // exactly one version, synced
  };

  // Opens a slot folder after any end of the process before, creates it when there is none. A state file that is
  // damaged, or whose byte slabs are gone, makes the slot `empty`: note() says so. Errors: io, no_space.
  static Result<std::shared_ptr<Slot>> open(FileSystem& files, std::filesystem::path directory, SlotName name,
                                            std::shared_ptr<ByteStore> bytes);

  SlotName name() const { return name_; }
  const std::filesystem::path& directory() const { return directory_; }
  std::filesystem::path checkpoint() const { return directory_ / "checkpoint"; }
  const std::string& note() const { return note_; }
  ByteStore& byte_store() const { return *bytes_; }

  Phase phase() const;
  Version version() const;                              // whole: what it holds; patching: what it came from; else 0
  SealHash seal() const;                                // of version()
  std::optional<StagedVersion> staged() const;          // whole only
  std::shared_ptr<const CheckpointTable> table() const;  // of version(); null when that is 0
  std::optional<RunId> target() const;                  // patching: where to
  std::shared_ptr<const Layout> layout() const;         // geometry of the tensor files; null: none yet
  // The digest of a tensor slab; none: damaged, or not looked at since a crash.
  std::optional<Digest> known_digest(std::uint32_t tensor_slab) const;

  // What lies there is not what was meant, whatever its digest says: it is taken anew when the slot is patched next, and
  // nothing is copied from it. Of headers and side files nothing is ever copied.
  void distrust(std::uint32_t tensor_slab);
  bool distrusted() const;  // some slab is

  // Both write the state file before they return, so that no crash can pass off a patched slot as whole. Calling
  // again for another target is fine: slabs keep what is known of them.
  // From what the slot holds, by deltas. Errors: usage (the slot is empty), io, no_space.
  Status begin_delta(const RunId& target, Version version);
  // From nothing (an anchor, or a copy of the other slot). Slabs that happen to be good are still recognised.
  Status begin_new(const RunId& target, Version version);
  // After begin_new(): makes the folders and the tensor files at their full size; removes what the layout has not.
  Status set_layout(std::shared_ptr<const Layout> layout);

  // Errors: usage (not patching), those of chain.frame() (the slab stays at a known digest), unsupported or limit (a
  // frame), io, no_space (the slab is unknown then). A frame that does not decode is either wrong or met a slab whose
  // bytes are not those of its digest: not done, until it fails again after a refill.
  Result<Applied> apply(std::uint32_t tensor_slab, const SlabChain& chain, SlabScratch& scratch);
  // Hashes the slab and notes what it is. Errors: io.
  Result<Digest> check(std::uint32_t tensor_slab, SlabScratch& scratch);
  // Copies the slab of another slot when it has one of the digests in `chain`, and checks it on the way.
  // False: the other has nothing of use. Errors: io, no_space.
  Result<bool> refill(std::uint32_t tensor_slab, const Slot& from, const SlabChain& chain, SlabScratch& scratch);
  // The slab's bytes from elsewhere. Errors: integrity (not `digest`), io, no_space.
  Status put(std::uint32_t tensor_slab, ByteView bytes, const Digest& digest);
  // The slab as it lies there, unchecked.
  Status read(std::uint32_t tensor_slab, Bytes& out) const;  // Errors: io, usage (no such slab)
  // A header or side file of table()'s layout, unchecked.
  Status read_bytes(const Slab& byte_slab, Bytes& out) const;

  struct Finish {
    std::optional<StagedVersion> staged;
    std::vector<std::uint32_t> open_slabs;  // tensor slabs that are unknown or not as wanted: nothing was changed
  };
  // Makes the slot whole at `version`: compares every slab with `want` and the hash of `want` with the seal's, writes
  // headers and side files, syncs, and writes the state file.
  // Errors: integrity (`want` does not hash to `table_hash`), io (after a failed sync the slabs are unknown; also when
  // the byte store has lost something), no_space, usage.
  Result<Finish> finish(Version version, const SealHash& seal, const Sha256& table_hash,
                        std::shared_ptr<const CheckpointTable> want);

  // Bytes of tensor slabs read and written so far, for metrics.
  std::uint64_t bytes_read() const { return bytes_read_.load(std::memory_order_relaxed); }
  std::uint64_t bytes_written() const { return bytes_written_.load(std::memory_order_relaxed); }

 private:
  enum class Known : std::uint8_t { no, yes, blank };  // blank: of no interest, never hashed
  struct SlabNote {
    Digest digest;
    Known known = Known::no;
  };

  Slot(FileSystem& files, std::filesystem::path directory, SlotName name, std::shared_ptr<ByteStore> bytes);
  Status load_state();
  Status adopt_state(SlotState state);
  Status begin(SlotState next);
  Status make_files(const Layout& layout);
  Status write_state(SlotState state);
  Status finish_files(const CheckpointTable& want);
  std::vector<std::uint32_t> open_slabs(const CheckpointTable& want) const;

  Result<const Slab*> slab_at(std::uint32_t tensor_slab) const;  // errors: usage, unless patching
  const std::string& path_of(const Slab& slab) const { return layout_->files()[slab.file].path; }
  SlabNote note_of(std::uint32_t tensor_slab) const;
  void set_note(std::uint32_t tensor_slab, Known known, const Digest& digest = {});

  // A slab in memory, either as it lies in the file or in a buffer, and where on its chain it is.
  struct Walk;
  Status open_walk(Walk& walk, std::uint32_t tensor_slab, bool mapped = true);
  Status load(Walk& walk, SlabScratch& scratch);
  Status find_place(Walk& walk, const SlabChain& chain, SlabScratch& scratch);
  Result<Applied> walk_chain(Walk& walk, const SlabChain& chain, SlabScratch& scratch);
  Status store(Walk& walk, const Digest& digest);

  FileSystem& files_;
  const std::filesystem::path directory_;
  const SlotName name_;
  const std::shared_ptr<ByteStore> bytes_;
  SlotFiles contents_;
  std::string note_;

  mutable std::mutex mutex_;
  Phase phase_ = Phase::empty;
  SlotState state_;            // as last written
  bool state_written_ = true;  // false: the last write failed, the old or the new state may be on the disk
  bool resumed_ = false;       // not whole since before this process: contents must be looked at
  bool made_ = false;          // files were made by this process
  std::shared_ptr<const CheckpointTable> base_;    // what state_.base describes
  std::shared_ptr<const CheckpointTable> placed_;  // whose headers and side files lie in the checkpoint; null: unknown
  std::shared_ptr<const Layout> layout_;
  std::vector<SlabNote> notes_;
  std::atomic<std::uint64_t> bytes_read_{0}, bytes_written_{0};
};

std::string_view name_of(Slot::Phase phase);

}  // namespace p2pw
