#include "cli/folder_watch.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temp_dir.h"

namespace p2pw {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class FolderWatchTest : public ::testing::Test {
 protected:
  FolderWatch watch(bool existing = false, const std::string& marker = "") {
    FolderWatch::Options options;
    options.root = dir.path();
    options.settle = seconds(3);
    options.existing = existing;
    options.marker = marker;
    options.readable = [](const std::filesystem::path& folder) { return std::filesystem::exists(folder / "whole"); };
    return FolderWatch(options);
  }
  void write(const std::string& file, const std::string& text = "x") {
    std::filesystem::create_directories((dir / file).parent_path());
    std::ofstream(dir / file, std::ios::app) << text;
  }
  std::vector<std::string> names(const std::vector<std::filesystem::path>& found) {
    std::vector<std::string> out;
    for (const auto& path : found) out.push_back(path.filename().string());
    return out;
  }
  using Names = std::vector<std::string>;
  testing::TempDir dir;
  FolderWatch::Clock::time_point t0{};
};

TEST_F(FolderWatchTest, AFolderIsFinishedWhenItIsWholeAndStill) {
  FolderWatch folders = watch();
  EXPECT_EQ(names(folders.look(t0)), Names{});
  write("step_1/part");
  EXPECT_EQ(names(folders.look(t0 + seconds(1))), Names{});
  EXPECT_EQ(names(folders.look(t0 + seconds(10))), Names{}) << "still, but not whole";
  write("step_1/whole");
  EXPECT_EQ(names(folders.look(t0 + seconds(11))), Names{}) << "whole, but only just";
  write("step_1/part", "more");
  EXPECT_EQ(names(folders.look(t0 + seconds(13))), Names{}) << "it has changed again";
  EXPECT_EQ(names(folders.look(t0 + seconds(15))), Names{});
  EXPECT_EQ(names(folders.look(t0 + seconds(16))), Names{"step_1"});
  EXPECT_EQ(names(folders.look(t0 + seconds(20))), Names{}) << "once";
}

TEST_F(FolderWatchTest, TemporaryNamesAndFilesAreNone) {
  FolderWatch folders = watch();
  folders.look(t0);
  for (const char* name : {"tmp-checkpoint-3", ".hidden", "step_3.tmp"}) write(std::string(name) + "/whole");
  write("whole");
  folders.look(t0 + seconds(1));
  EXPECT_EQ(names(folders.look(t0 + seconds(9))), Names{});
  std::filesystem::rename(dir / "tmp-checkpoint-3", dir / "checkpoint-3");
  folders.look(t0 + seconds(10));
  EXPECT_EQ(names(folders.look(t0 + seconds(13))), Names{"checkpoint-3"});
}

TEST_F(FolderWatchTest, WhatWasThereBeforeIsLeftOutUnlessItIsAskedFor) {
  write("step_9/whole");
  write("step_10/whole");
  write("step_11/part");  // still being written
  FolderWatch folders = watch();
  folders.look(t0);
  write("step_11/whole");
  folders.look(t0 + seconds(1));
  EXPECT_EQ(names(folders.look(t0 + seconds(9))), Names{"step_11"});
  FolderWatch all = watch(true);
  all.look(t0);
  EXPECT_EQ(names(all.look(t0 + seconds(3))), (Names{"step_9", "step_10", "step_11"})) << "by number, not by letter";
}

TEST_F(FolderWatchTest, AMarkerTellsAtOnce) {
  FolderWatch folders = watch(false, "DONE");
  folders.look(t0);
  write("step_1/whole");
  EXPECT_EQ(names(folders.look(t0 + seconds(60))), Names{});
  write("step_1/DONE");
  EXPECT_EQ(names(folders.look(t0 + seconds(60))), Names{"step_1"});
}

TEST_F(FolderWatchTest, WhatCouldNotBePublishedComesAgain) {
  FolderWatch folders = watch();
  folders.look(t0);
  write("step_1/whole");
  folders.look(t0 + seconds(1));
  auto found = folders.look(t0 + seconds(5));
  ASSERT_EQ(found.size(), 1u);
  folders.again(found.front());
  EXPECT_EQ(names(folders.look(t0 + seconds(6))), Names{"step_1"});
}

TEST(NumberInName, IsTheLastOne) {
  EXPECT_EQ(number_in_name("checkpoint-1200"), 1200);
  EXPECT_EQ(number_in_name("run7_step_0012_ema"), 12);
  EXPECT_EQ(number_in_name("final"), std::nullopt);
  EXPECT_EQ(number_in_name("99999999999999999999"), std::nullopt);
}

}  // namespace
}  // namespace p2pw
