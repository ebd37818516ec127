#include "daemon/swarm/job_pool.h"

#include <algorithm>
#include <utility>

namespace p2pw {

JobPool::JobPool(int threads) {
  for (int i = 0; i < std::max(1, threads); ++i) threads_.emplace_back([this] { run(); });
}

JobPool::~JobPool() {
  stop();
}

void JobPool::add(std::function<void()> job) {
  {
    std::lock_guard lock(mutex_);
    if (!stopped_) {
      jobs_.push_back(std::move(job));
      wake_.notify_one();
      return;
    }
  }
  job();
}

void JobPool::stop() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void JobPool::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopped_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    job = nullptr;  // what it holds may be expensive to let go of: not under the lock
    lock.lock();
  }
}

}  // namespace p2pw
