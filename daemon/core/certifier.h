// Holds the active slot against the publisher's certificate. Nobody waits for that, so one slab after the other is hashed
// on a thread that gives way to all others. But the slot is pinned meanwhile: once a newer version has become active, the
// next rebuild waits for it, and what is left is hashed on all threads of the rebuild pool. When the root differs, somebody
// who has the right list of hashes (its root proves it) is asked for it; the slabs that differ are named, and given up, so
// that the Rebuilder takes them anew.
//
//   idle -> hashing -> idle              every slab is what the publisher certified
//   hashing -> asking -> idle            wrong slabs are known
//
// Threads: control thread only; the disk is read on the pool.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "chunker/slot_pair.h"
#include "daemon/core/work_pool.h"
#include "protocol/hash.h"
#include "protocol/membership.h"
#include "protocol/record.h"

namespace p2pw {

class Certifier {
 public:
  enum class State : std::uint8_t { idle, hashing, asking };
  static constexpr std::chrono::seconds kAskEvery{5};
  struct Events {
    std::function<void(Version)> certified;
    std::function<void(Version)> ask;  // for the list of hashes, whoever may have it
    // The active slot's slabs that are not what was certified. They have been given up.
    std::function<void(Version, const std::vector<SlabId>& wrong)> failed;
  };

  struct Pools {
    WorkPool& idle;  // one thread that gives way
    WorkPool& hurry;
  };
  Certifier(SlotPair& slots, Pools pools, Events events);

  // The active version has this certificate; the same one again does nothing.
  void check(const CertifyRecord& certificate);
  // A list of hashes from somebody, of any version. Errors: integrity (not the certified one).
  Status list(Version version, ByteView hashes);
  // The list of the last version that was certified here, for others; null: none.
  std::shared_ptr<const Bytes> certified_list(Version version) const;
  void tick(SteadyTime now);
  State state() const { return state_; }

 private:
  bool overtaken() const;  // the pinned slot is not the active one any more
  void go_on();
  void hash(std::size_t index, WorkPool& pool);
  void hashed(std::size_t index, const Sha256& hash, const Status& read);
  void finish();
  void give_up(const std::vector<SlabId>& wrong);
  void rest();

  SlotPair& slots_;
  Pools pools_;
  Events events_;
  State state_ = State::idle;
  std::optional<CertifyRecord> certificate_;
  std::optional<SealHash> done_;  // the version that was checked last, whatever came of it
  SlotPin pin_;
  std::size_t byte_slabs_ = 0, tensor_slabs_ = 0, next_ = 0, in_flight_ = 0;
  std::vector<Sha256> hashes_;
  SteadyTime asked_at_{};
  Version certified_;
  std::shared_ptr<const Bytes> list_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();
};

}  // namespace p2pw
