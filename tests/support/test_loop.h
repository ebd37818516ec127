// A control thread for tests: tasks posted from pool threads run where run_until() is called.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

namespace p2pw::testing {

class TestLoop {
 public:
  std::function<void(std::function<void()>)> executor() {
    return [this](std::function<void()> task) {
      std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
      wake_.notify_one();
    };
  }

  // Runs tasks until the condition holds. False after a minute without: the test fails, it does not hang.
  bool run_until(const std::function<bool()>& condition) {
    auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!condition()) {
      std::function<void()> task;
      {
        std::unique_lock lock(mutex_);
        if (!wake_.wait_until(lock, end, [this] { return !tasks_.empty(); })) return false;
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      task();
    }
    return true;
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
};

}  // namespace p2pw::testing
