#include "daemon/core/work_pool.h"

#include <algorithm>

#include "daemon/client/give_way.h"

namespace p2pw {

WorkPool::WorkPool(unsigned threads, Executor executor, int nicer) : executor_(std::move(executor)), nicer_(nicer) {
  for (unsigned i = 0; i < std::max(threads, 1u); ++i) threads_.emplace_back([this] { work(); });
}

WorkPool::~WorkPool() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    tasks_.clear();
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkPool::add(Task task) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    tasks_.push_back(std::move(task));
  }
  wake_.notify_one();
}

void WorkPool::post(Task task) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
  }
  executor_(std::move(task));
}

void WorkPool::work() {
  if (nicer_ != 0) give_way(nicer_);
  for (;;) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
      if (stopping_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace p2pw
