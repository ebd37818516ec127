// p2pw-series: what demo, lab and benchmarks stand on must be well formed, the same for a seed, and change as asked.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "chunker/layout.h"
#include "tests/support/checkpoint.h"
#include "tests/support/program.h"
#include "tests/support/temp_dir.h"

namespace p2pw {
namespace {

nlohmann::json make(const std::string& out, std::vector<std::string> more) {
  more.insert(more.begin(), {out, "--bytes", "3MiB", "--steps", "2", "--json"});
  auto result = testing::run_program("p2pw-series", more);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return nlohmann::json::parse(result.out, nullptr, false);
}

TEST(Series, EveryKindIsAStrictlyValidCheckpointOfTheAskedSize) {
  for (const char* dtype : {"BF16", "F16", "F32", "F8_E4M3", "mixed", "fp8-block", "moe"}) {
    SCOPED_TRACE(dtype);
    testing::TempDir dir;
    auto made = make(dir / "s", {"--dtype", dtype, "--changed", "2"});
    auto first = Layout::scan(dir / "s/step_0000"), last = Layout::scan(dir / "s/step_0002");
    ASSERT_TRUE(first.ok()) << first.error().message;
    ASSERT_TRUE(last.ok()) << last.error().message;
    EXPECT_TRUE(last->same_tensor_slabs(*first));
    EXPECT_NEAR(static_cast<double>(first->total_bytes()), 3.0 * (1 << 20), 0.2 * (1 << 20));
    if (std::string(dtype) != "fp8-block") {
      EXPECT_NEAR(made["changed_percent"].get<double>(), 2.0, 0.3);
    }
  }
}

TEST(Series, TheSameSeedGivesTheSameBytesOnAnyNumberOfThreads) {
  testing::TempDir dir;
  make(dir / "a", {"--seed", "5", "--threads", "1"});
  make(dir / "b", {"--seed", "5", "--threads", "4"});
  make(dir / "c", {"--seed", "6"});
  EXPECT_EQ(testing::tree(dir / "a"), testing::tree(dir / "b"));
  EXPECT_NE(testing::tree(dir / "a"), testing::tree(dir / "c"));
}

TEST(Series, DenseStepsHaveLittleInCommonAndConfigsChangeOnlyWhenAsked) {
  testing::TempDir dir;
  auto made = make(dir / "a", {"--dense", "--change-config"});
  EXPECT_GT(made["changed_percent"].get<double>(), 95.0);
  EXPECT_NE(testing::read_text(dir / "a/step_0000/config.json"), testing::read_text(dir / "a/step_0001/config.json"));
  make(dir / "b", {});
  EXPECT_EQ(testing::read_text(dir / "b/step_0000/config.json"), testing::read_text(dir / "b/step_0001/config.json"));
}

TEST(Series, AsManyExpertTensorsAsAsked) {
  testing::TempDir dir;
  auto made = make(dir / "a", {"--dtype", "moe", "--moe-tensors", "3000"});
  EXPECT_GE(made["tensors"].get<int>(), 3000);
  EXPECT_TRUE(Layout::scan(dir / "a/step_0001").ok());
}

TEST(Series, WritesOverNothing) {
  testing::TempDir dir;
  make(dir / "a", {});
  auto again = testing::run_program("p2pw-series", {dir / "a", "--bytes", "1MiB"});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_NE(again.err.find("exists already"), std::string::npos);
  EXPECT_EQ(testing::run_program("p2pw-series", {dir / "b", "--bytes", "many"}).exit_code, 2);
}

}  // namespace
}  // namespace p2pw
