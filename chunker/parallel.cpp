#include "chunker/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

namespace p2pw {

unsigned default_threads() { return std::max(1u, std::thread::hardware_concurrency()); }

Status without_exceptions(const std::function<Status()>& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::failed, "out of memory");
  } catch (const std::exception& e) {
    return fail(ErrorCode::failed, e.what());
  }
}

Status parallel_for(unsigned threads, std::size_t count,
                    const std::function<Status(unsigned worker, std::size_t index)>& work) {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::size_t failed_index = count;
  Status result;
  auto loop = [&](unsigned worker) {
    while (!stop.load(std::memory_order_relaxed)) {
      std::size_t index = next.fetch_add(1, std::memory_order_relaxed);
      if (index >= count) return;
      Status status = without_exceptions([&] { return work(worker, index); });
      if (status.ok()) continue;
      std::lock_guard lock(mutex);
      if (index < failed_index) {
        failed_index = index;
        result = std::move(status);
      }
      stop = true;
    }
  };
  auto workers = static_cast<unsigned>(std::clamp<std::size_t>(count, 1, std::max(1u, threads)));
  std::vector<std::jthread> pool;
  for (unsigned i = 1; i < workers; ++i) pool.emplace_back(loop, i);
  loop(0);
  pool.clear();
  return result;
}

}  // namespace p2pw
