#include "daemon/core/work_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "tests/support/test_loop.h"

namespace p2pw {
namespace {

TEST(WorkPool, HandsResultsToTheExecutorsThread) {
  testing::TestLoop loop;
  WorkPool pool(2, loop.executor());
  auto here = std::this_thread::get_id();
  int sum = 0, done = 0;
  for (int i = 0; i < 100; ++i) {
    pool.run([i, here] { return std::this_thread::get_id() == here ? -1000 : i; },
             [&](int value) {
               EXPECT_EQ(std::this_thread::get_id(), here);
               sum += value;
               ++done;
             });
  }
  ASSERT_TRUE(loop.run_until([&] { return done == 100; }));
  EXPECT_EQ(sum, 4950);
}

TEST(WorkPool, ResultsNeedNotBeCopyable) {
  testing::TestLoop loop;
  WorkPool pool(1, loop.executor());
  std::unique_ptr<int> got;
  pool.run([] { return std::make_unique<int>(7); }, [&](std::unique_ptr<int> value) { got = std::move(value); });
  ASSERT_TRUE(loop.run_until([&] { return got != nullptr; }));
  EXPECT_EQ(*got, 7);
}

TEST(WorkPool, NothingIsPostedAfterItsEnd) {
  std::atomic<int> posted{0};
  std::atomic<bool> started{false}, go{false};
  auto pool = std::make_unique<WorkPool>(1, [&](const WorkPool::Task&) { ++posted; });
  pool->run(
      [&] {
        started = true;
        while (!go) std::this_thread::yield();
      },
      [] {});
  pool->run([] {}, [] {});
  while (!started) std::this_thread::yield();
  std::thread ending([&] { pool = nullptr; });
  // The destructor waits for what runs; what waits is dropped.
  go = true;
  ending.join();
  EXPECT_LE(posted, 2);
  int before = posted;
  std::this_thread::yield();
  EXPECT_EQ(posted, before);
}

}  // namespace
}  // namespace p2pw
