// Sparse hand-overs (chunker/sparse_export.h) between the two slots of one channel, for engines that patch their weights in
// place: from what the engine serves to what it is to serve, however many versions lie between.
//
// The file is made on the pool, with both slots pinned, under `folder`; it stays until the next one is made. One at a time.
// Control thread only.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "chunker/slot_pair.h"
#include "chunker/sparse_export.h"
#include "daemon/core/work_pool.h"

namespace p2pw {

struct SparseHandOver {
  std::filesystem::path file;
  Version from, to;
  SparseSummary summary;
};

class SparseMaker {
 public:
  using Done = std::function<void(Result<SparseHandOver>)>;
  SparseMaker(SlotPair& slots, WorkPool& pool, std::filesystem::path folder);
  ~SparseMaker();

  // Version 0: `to` is the newer of the two slots' versions, `from` the other one.
  // Errors: not_found (no slot holds that version whole, or both hold the same), busy, those of export_sparse().
  void make(Version from, Version to, Done done);

 private:
  void remove_file();

  SlotPair& slots_;
  WorkPool& pool_;
  std::filesystem::path folder_;
  std::optional<SparseHandOver> made_;
  bool busy_ = false;
  std::shared_ptr<std::atomic<bool>> stop_ = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<int> alive_ = std::make_shared<int>();
};

}  // namespace p2pw
