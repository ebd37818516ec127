// A node's use of shared storage: keeps it filled with what its channels have sealed, and takes from it what no peer gives.
// One store for all channels; a MirrorWriter and a MirrorReader for each.
//
// Threads: control thread only; the store is called on threads of its own (`kThreads`), which may block as long as the
// store's time-outs allow.
#pragma once

#include <map>
#include <set>

#include "daemon/core/work_pool.h"
#include "daemon/mirror/mirror_host.h"
#include "daemon/mirror/mirror_pass.h"
#include "daemon/mirror/mirror_plan.h"

namespace p2pw {

// What it has done since the start.
struct MirrorStats {
  std::uint64_t chunk_bytes_read = 0;             // payload of bundles
  std::uint64_t other_bytes_read = 0;             // metas, records
  std::uint64_t bytes_written = 0;                // bundles and metas
  std::uint64_t refused = 0;                      // objects that are not what the publisher signed
  std::map<std::string, std::uint64_t> failures;  // by error code
  std::optional<WallTime> last_success;
  std::string problem;  // of the last call that failed; empty after one that did not
};

// The store, its threads and its health, shared by all channels.
class MirrorAccess {
 public:
  static constexpr unsigned kThreads = 4;
  using Told = std::function<void(const std::string& event, const std::string& detail)>;
  using Clock = std::function<std::pair<SteadyTime, WallTime>()>;

  // `told`: the mirror fails, or answers again.
  MirrorAccess(std::unique_ptr<MirrorStore> store, WorkPool::Executor executor, Clock clock, Told told);
  ~MirrorAccess();

  bool may_try() const { return backoff_.may_try(clock_().first); }
  // `call(store)` on a thread of the mirror's gives a Result; `done` gets it on the control thread, after what it says
  // about the mirror's health has been noted. What is wrong with a single object says nothing about it.
  template <class Call, class Done>
  void run(Call call, Done done) {
    pool_->run([store = store_.get(), call = std::move(call)]() mutable { return call(*store); },
               [this, weak = std::weak_ptr<int>(alive_), done = std::move(done)](auto result) mutable {
                 if (weak.expired()) return;
                 note(result.ok() ? nullptr : &result.error());
                 done(std::move(result));
               });
  }
  void stop() { store_->stop(); }
  MirrorStats& stats() { return stats_; }
  const MirrorStats& stats() const { return stats_; }

 private:
  void note(const Error* error);

  std::unique_ptr<MirrorStore> store_;
  Clock clock_;
  Told told_;
  MirrorBackoff backoff_;
  MirrorStats stats_;
  ErrorCode told_code_ = ErrorCode::failed;  // of the problem
  std::shared_ptr<int> alive_ = std::make_shared<int>();
  std::unique_ptr<WorkPool> pool_;  // last: its tasks use the store
};

}  // namespace p2pw
