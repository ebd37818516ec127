// A few threads that run jobs in the order in which they were given.
//
// Threads: add() any thread. Jobs must not throw.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace p2pw {

class JobPool {
 public:
  explicit JobPool(int threads);
  ~JobPool();
  JobPool(const JobPool&) = delete;

  // After stop() the job runs at once, in the caller's thread: work that others wait for is never lost.
  void add(std::function<void()> job);
  // Finishes every job that was given and ends the threads. May be called again.
  void stop();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace p2pw
