#include "chunker/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace p2pw {
namespace {

TEST(ParallelFor, EveryIndexOnceOnNoMoreWorkersThanAsked) {
  for (unsigned threads : {0u, 1u, 2u, 7u}) {
    std::vector<std::atomic<int>> seen(1000);
    std::atomic<bool> bad_worker{false};
    Status status = parallel_for(threads, seen.size(), [&](unsigned worker, std::size_t i) -> Status {
      if (worker >= std::max(1u, threads)) bad_worker = true;
      ++seen[i];
      return {};
    });
    EXPECT_TRUE(status.ok());
    EXPECT_FALSE(bad_worker);
    for (const auto& count : seen) EXPECT_EQ(count, 1);
  }
  EXPECT_TRUE(parallel_for(4, 0, [](unsigned, std::size_t) -> Status { return fail(ErrorCode::failed, ""); }).ok());
}

TEST(ParallelFor, TheErrorOfTheLowestIndexWins) {
  for (int round = 0; round < 50; ++round) {
    Status status = parallel_for(4, 100, [](unsigned, std::size_t i) -> Status {
      if (i >= 10) return fail(ErrorCode::io, std::to_string(i));
      return {};
    });
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().message, "10");
  }
}

TEST(ParallelFor, WhatIsThrownBecomesAnError) {
  Status status = parallel_for(2, 3, [](unsigned, std::size_t) -> Status { throw std::runtime_error("thrown"); });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::failed);
  EXPECT_EQ(status.error().message, "thrown");
}

}  // namespace
}  // namespace p2pw
