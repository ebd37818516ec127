// Holds the active slot against the publisher's certificate: one slab after the other is hashed on the pool, while the slot
// is pinned. When the root differs, somebody who has the right list of hashes (its root proves it) is asked for it; the
// slabs that differ are named, and given up, so that the Rebuilder takes them anew.
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
    std::function<void()> unpinned;
  };

  Certifier(SlotPair& slots, WorkPool& pool, Events events);

  // The active version has this certificate; the same one again does nothing.
  void check(const CertifyRecord& certificate);
  // A list of hashes from somebody, of any version. Errors: integrity (not the certified one).
  Status list(Version version, ByteView hashes);
  // The list of the last version that was certified here, for others; null: none.
  std::shared_ptr<const Bytes> certified_list(Version version) const;
  void tick(SteadyTime now);
  State state() const { return state_; }

 private:
  void hash_next();
  void hashed(std::size_t index, const Sha256& hash, const Status& read);
  void finish();
  void give_up(const std::vector<SlabId>& wrong);
  void rest();

  SlotPair& slots_;
  WorkPool& pool_;
  Events events_;
  State state_ = State::idle;
  std::optional<CertifyRecord> certificate_;
  std::optional<SealHash> done_;  // the version that was checked last, whatever came of it
  SlotPin pin_;
  std::size_t byte_slabs_ = 0, tensor_slabs_ = 0, next_ = 0;
  std::vector<Sha256> hashes_;
  SteadyTime asked_at_{};
  Version certified_;
  std::shared_ptr<const Bytes> list_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();
};

}  // namespace p2pw
