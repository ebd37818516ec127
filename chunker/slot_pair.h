// The two slots of one followed channel and the link `current`, which names the active one's checkpoint folder:
//
//   <channel>/current -> slots/a/checkpoint
//   <channel>/slots/a, <channel>/slots/b   (or wherever the configuration puts them: memory, another disk)
//   <channel>/bytes                        byte slabs of both
//
// `current` is replaced by an atomic rename and its folder synced before the switch counts, and it is only ever pointed
// at a StagedVersion. The other slot is the standby: it may be patched unless it is held (an engine may still have its
// files mapped) or pinned (a publisher reads it).
//
// A node that has no room for two may have one (SlotPlaces::single). It is patched where it lies: `current` is taken away
// first (vacate), and is absent until the next version stands. So nothing can be served from the disk meanwhile, there is
// nothing to go back to, and an engine that still has files mapped would see them change: the slot is free only once the
// engine has said that it holds the weights itself (let_go), and no time-out says so in its place. After a crash in
// between the slot is finished, or mended from neighbours.
//
// Threads: any; switch_to(), switch_back(), vacate() and settle() one at a time. These touch the disk: not on a thread that must
// not wait.
#pragma once

#include <functional>

#include "chunker/slot.h"

namespace p2pw {

struct SlotPlaces {
  std::filesystem::path channel;  // <state>/channels/C
  std::filesystem::path a, b;     // empty: <channel>/slots/a, <channel>/slots/b
  bool single = false;            // only a
};

// Keeps one slot from being patched for as long as it lives.
using SlotPin = std::shared_ptr<const Slot>;

class SlotPair {
 public:
  ~SlotPair();
  // Also removes a `current` that names a slot which is not whole (its folder was lost or damaged). Errors: io, no_space.
  static Result<std::unique_ptr<SlotPair>> open(FileSystem& files, SlotPlaces places);

  const std::shared_ptr<Slot>& slot(SlotName name) const { return slots_[static_cast<std::size_t>(name)]; }
  std::shared_ptr<Slot> active() const;   // null before the first activation
  std::shared_ptr<Slot> standby() const;  // never null; before the first activation the one that is not empty, or a
  std::optional<StagedVersion> active_version() const;
  std::shared_ptr<ByteStore> byte_store() const { return bytes_; }
  std::filesystem::path current() const { return places_.channel / "current"; }

  // Points `current` at the staged version: the slots change places. The old one is held until release().
  // Errors: usage (not the version that the standby holds), io.
  Status switch_to(const StagedVersion& staged);
  // Undoes the last switch_to(). Errors: usage (the old slot was released, or there was none), io.
  Status switch_back();
  // After a failed switch: makes `current` name active() for certain. Until then the standby is not free. Errors: io.
  Status settle();
  bool settled() const;
  bool can_switch_back() const;  // the old version still stands where it stood
  void release();        // the engine has let go of the old slot; does nothing when there is only one
  bool single() const { return places_.single; }
  void let_go();         // the engine holds the weights itself: nothing of a single slot is mapped any more
  // Single: before the slot is patched, takes `current` away. Otherwise does nothing. Errors: io.
  Status vacate();
  bool held() const;     // the standby still waits for release()
  void hold_standby(bool hold);  // an activation has plans for what is staged there

  // Of the active slot. Null when there is none.
  SlotPin pin_active();
  // Of the standby; null unless a whole version stands in it.
  SlotPin pin_standby();
  // The standby may be patched: neither held, pinned, nor possibly named by `current`.
  bool standby_free() const;
  // `tell` is called whenever the last pin of a slot is gone, on the thread that let go of it: it must only post. Not after
  // the pair's end.
  void on_unpinned(std::function<void()> tell);

 private:
  SlotPair(FileSystem& files, SlotPlaces places);
  Status find_current();
  Status point_current(std::optional<SlotName> name);
  Status move_current(SlotName name);
  std::string link_text(SlotName name) const;
  SlotPin pin(SlotName name);  // under the lock

  FileSystem& files_;
  SlotPlaces places_;
  std::shared_ptr<ByteStore> bytes_;
  std::shared_ptr<Slot> slots_[2];
  mutable std::mutex mutex_;
  std::optional<SlotName> active_;
  bool can_switch_back_ = false;
  bool held_ = false, reserved_ = false;
  bool unsettled_ = false;  // a switch failed half-way: `current` may name either slot
  struct Pins;  // outlives the pair with the last pin
  std::shared_ptr<Pins> pins_;
};

}  // namespace p2pw
