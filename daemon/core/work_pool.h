// A fixed pool of threads for work that must not run on the control thread: decoding, hashing, disk. Takes values, gives
// values back: the result of a task is handed to `done` on the executor's thread, in no particular order.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace p2pw {

class WorkPool {
 public:
  using Task = std::function<void()>;
  using Executor = std::function<void(Task)>;  // runs the task soon on the control thread; called from pool threads

  // `nicer`: how much these threads give way to others where cores are short (nice values; 0 = not at all).
  WorkPool(unsigned threads, Executor executor, int nicer = 0);
  // Tasks that run are waited for, those that wait are dropped; nothing is posted after this returns.
  ~WorkPool();
  WorkPool(const WorkPool&) = delete;

  // `work` runs on a pool thread and must not throw; `done(result)` on the executor.
  template <class Work, class Done>
  void run(Work work, Done done) {
    using Value = std::invoke_result_t<Work&>;
    add([this, work = std::move(work), done = std::move(done)]() mutable {
      if constexpr (std::is_void_v<Value>) {
        work();
        post(std::move(done));
      } else {
        // std::function wants something to copy, results may only move.
        auto value = std::make_shared<Value>(work());
        post([value, done = std::move(done)]() mutable { done(std::move(*value)); });
      }
    });
  }

  const Executor& executor() const { return executor_; }
  unsigned threads() const { return static_cast<unsigned>(threads_.size()); }

 private:
  void add(Task task);
  void post(Task task);
  void work();

  Executor executor_;
  const int nicer_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Task> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace p2pw
