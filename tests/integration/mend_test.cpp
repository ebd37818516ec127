// Joining and mending inside a region, with real daemons: slabs of neighbours instead of bytes over the WAN.
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <fstream>

#include "tests/integration/fleet.h"

namespace p2pw::testing {
namespace {

class MendTest : public ::testing::Test {
 protected:
  void TearDown() override {
    if (HasFailure()) std::cerr << fleet.logs();
  }
  // A region of two, at the last of so many versions.
  void publish(int versions) {
    make_series(series, "24MiB", versions - 1, {"--dtype", "mixed"});
    fleet.start_trainer();
    fleet.start_node("r1", 1);
    fleet.start_node("r1", 2);
    ASSERT_EQ(fleet.wait_joined(3), 3u);
    for (int n = 0; n < versions; ++n) {
      Ran seeded = fleet.seed(step(n), {"--wait-active", "100%"});
      ASSERT_EQ(seeded.exit_code, 0) << seeded.err;
    }
  }
  // More than a region keeps by itself; its other node has passed them all.
  void seven_versions_without_r1_2() {
    fleet.kill("r1-2");
    for (int n = 1; n <= 7; ++n) {
      ASSERT_EQ(fleet.seed(step(n)).exit_code, 0);
      ASSERT_EQ(fleet.wait_active(static_cast<std::uint64_t>(n) + 1, 2), 2u);
    }
    ASSERT_TRUE(until_log("r1-1", "\"event\":\"caught-up\",\"version\":8"));
    ASSERT_EQ(fleet.p2pw("r1-1", {"gc", "--apply"}).exit_code, 0);
  }
  std::filesystem::path step(int n) const { return series / ("step_000" + std::to_string(n)); }
  bool until_log(const std::string& name, const std::string& text, int seconds = 30) {
    auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    while (std::chrono::steady_clock::now() < deadline) {
      if (fleet.p2pw(name, {"log"}).out.find(text) != std::string::npos) return true;
      poll(nullptr, 0, 50);
    }
    return false;
  }
  bool until_exact(const std::string& name, const std::filesystem::path& checkpoint, int seconds = 30) {
    auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    while (std::chrono::steady_clock::now() < deadline) {
      if (same_tree(checkpoint, fleet.current(name))) return true;
      poll(nullptr, 0, 50);
    }
    return false;
  }
  // A foreign writer: one byte in each MiB of every tensor file of what `current` names.
  void spoil(const std::string& name) {
    for (auto& entry : std::filesystem::directory_iterator(std::filesystem::canonical(fleet.current(name)))) {
      if (entry.path().extension() != ".safetensors") continue;
      std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      auto size = static_cast<std::streamoff>(entry.file_size());
      for (std::streamoff at = size - 1; at > size / 4; at -= 1 << 20) {
        file.seekg(at);
        char c = static_cast<char>(~file.get());
        file.seekp(at);
        file.write(&c, 1);
      }
    }
  }
  bool until_knows(const std::string& name, const std::string& other, std::uint64_t version,
                   int seconds = 30) {
    auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    while (std::chrono::steady_clock::now() < deadline) {
      Ran status = fleet.p2pw(name, {"status"});
      for (auto& node : status.json["nodes"]) {
        if (node["name"] == other && node["version_active"] == version) return true;
      }
      poll(nullptr, 0, 50);
    }
    return false;
  }
  std::uint64_t payload_into_region(int versions) {
    std::uint64_t sum = 0;
    for (int v = 1; v <= versions; ++v) sum += fleet.payload_into(static_cast<std::uint64_t>(v))["r1"];
    return sum;
  }

  Fleet fleet;
  std::filesystem::path series = fleet.path() / "series";
};

TEST_F(MendTest, JoinerCopiesSlabsWhenTheRegionHasDroppedTheLineage) {
  publish(6);
  ASSERT_TRUE(until_log("r1-1", "\"event\":\"caught-up\",\"version\":6"));
  Ran gc = fleet.p2pw("r1-1", {"gc", "--apply"});
  ASSERT_EQ(gc.exit_code, 0) << gc.err;
  gc = fleet.p2pw("r1-1", {"gc"});
  for (auto& run : gc.json["runs"]) {
    EXPECT_GT(run["version"], 2) << run;
    EXPECT_FALSE(run["why"].get<std::string>().empty());
  }
  gc = fleet.p2pw("trainer", {"gc"});
  EXPECT_EQ(gc.json["runs"].size(), 6u) << "the trainer keeps the way from nothing: " << gc.out;

  std::uint64_t before = payload_into_region(6);
  fleet.start_node("r1", 3);
  EXPECT_TRUE(until_exact("r1-3", step(5)));
  EXPECT_TRUE(until_log("r1-3", "\"join\""));
  EXPECT_EQ(payload_into_region(6), before) << "it cost WAN bytes";
}

TEST_F(MendTest, NeighbourThatGivesWrongSlabsIsNamedAndTheOthersHelp) {
  publish(1);
  // Later it would find the damage itself, and mend it before it gives anything.
  ASSERT_TRUE(until_log("r1-1", "\"certified\""));
  spoil("r1-1");
  fleet.start_node("r1", 3);
  EXPECT_TRUE(until_exact("r1-3", step(0)));
  EXPECT_TRUE(until_log("r1-3", "neighbour-wrong"));
  EXPECT_NE(fleet.p2pw("r1-3", {"log"}).out.find("r1-1"), std::string::npos);
}

TEST_F(MendTest, DamagedActiveSlotIsFoundByTheCertificateAndMended) {
  publish(1);
  ASSERT_TRUE(until_log("r1-1", "\"certified\""));
  ASSERT_TRUE(until_log("r1-2", "\"certified\""));
  fleet.kill("r1-2");
  spoil("r1-2");
  ASSERT_FALSE(same_tree(step(0), fleet.current("r1-2")));
  fleet.start("r1-2");
  EXPECT_TRUE(until_log("r1-2", "certify-failed"));
  EXPECT_TRUE(until_exact("r1-2", step(0)));
  EXPECT_TRUE(until_log("r1-2", "\"mended\""));
}

// It is down while more versions come than a region keeps by itself.
TEST_F(MendTest, WhatANodeThatWasSeenLatelyNeedsIsKeptAndCostsNoWanByte) {
  make_series(series, "4MiB", 7);
  fleet.start_trainer();
  fleet.start_node("r1", 1,
                   [](Config& config) { config.node.bootstrap = true; });  // it hears of its region's nodes
  fleet.start_node("r1", 2);
  ASSERT_EQ(fleet.wait_joined(3), 3u);
  ASSERT_EQ(fleet.seed(step(0), {"--wait-active", "100%"}).exit_code, 0);
  ASSERT_TRUE(until_knows("r1-1", "r1-2", 1));
  ASSERT_NO_FATAL_FAILURE(seven_versions_without_r1_2());
  Ran gc = fleet.p2pw("r1-1", {"gc"});
  bool second = false;
  for (auto& run : gc.json["runs"]) {
    if (run["version"] != 2) continue;
    second = true;
    EXPECT_EQ(run["why"], "node r1-2 is at version 1");
  }
  EXPECT_TRUE(second) << gc.out;
  const std::uint64_t before = payload_into_region(8);
  fleet.start("r1-2");
  EXPECT_TRUE(until_exact("r1-2", step(7)));
  EXPECT_EQ(payload_into_region(8), before) << "it cost WAN bytes";
}

// Nobody in its region knows of it, so they drop what it lacks; the trainer has it still, and whoever took it
// in once must not stand in the way.
TEST_F(MendTest, WhatARegionHasDroppedComesFromTheTrainer) {
  make_series(series, "4MiB", 7);
  fleet.start_trainer();
  fleet.start_node("r1", 1);
  fleet.start_node("r1", 2);
  ASSERT_EQ(fleet.wait_joined(3), 3u);
  ASSERT_EQ(fleet.seed(step(0), {"--wait-active", "100%"}).exit_code, 0);
  ASSERT_NO_FATAL_FAILURE(seven_versions_without_r1_2());
  fleet.start("r1-2");
  EXPECT_TRUE(until_exact("r1-2", step(7), 60));
}

// It does not know who has passed what, and offers all that it keeps.
TEST_F(MendTest, ATrainerThatStartsAgainSendsNothingThatItsRegionsHaveDropped) {
  make_series(series, "4MiB", 6);
  fleet.start_trainer();
  fleet.start_node("r1", 1);
  ASSERT_EQ(fleet.wait_joined(2), 2u);
  for (int n = 0; n <= 5; ++n) {
    ASSERT_EQ(fleet.seed(step(n), {"--wait-active", "100%"}).exit_code, 0);
  }
  ASSERT_TRUE(until_log("r1-1", "\"event\":\"caught-up\",\"version\":6"));
  ASSERT_EQ(fleet.p2pw("r1-1", {"gc", "--apply"}).exit_code, 0);
  const Ran gc = fleet.p2pw("r1-1", {"gc"});
  for (auto& run : gc.json["runs"]) ASSERT_GT(run["version"], 1) << gc.out;
  fleet.kill("trainer");
  fleet.start("trainer");  // its counters begin anew
  ASSERT_EQ(fleet.wait_joined(2), 2u);
  // Goes the same way as the offers, after them.
  Ran seeded = fleet.seed(step(6), {"--wait-active", "100%"});
  ASSERT_EQ(seeded.exit_code, 0) << seeded.err;
  EXPECT_EQ(fleet.payload_into(7)["r1"], fleet.used_bytes(7));
  EXPECT_EQ(payload_into_region(6), 0u);
}

TEST_F(MendTest, AnAnchorBesidesADeltaStaysWithTheTrainer) {
  make_series(series, "8MiB", 2);
  fleet.start_trainer();
  fleet.start_node("r1", 1);
  ASSERT_EQ(fleet.wait_joined(2), 2u);
  for (int n = 0; n <= 2; ++n) {
    ASSERT_EQ(fleet.seed(step(n), {"--anchor-every", "2", "--wait-active", "100%"}).exit_code, 0);
  }
  ASSERT_TRUE(until_log("trainer", "\"event\":\"anchor\",\"version\":2"));
  EXPECT_EQ(fleet.payload_into(2)["r1"], fleet.used_bytes(2))
      << "the anchor went out to a region that did not ask, or the delta twice: " << fleet.p2pw("trainer", {"log"}).out;
}

// The neighbouring region still holds the first anchor and all deltas, and would pass them on.
TEST_F(MendTest, AnEmptyRegionTakesTheNewestAnchorAndItsLineageAndNothingElse) {
  make_series(series, "24MiB", 2);
  fleet.start_trainer();
  fleet.start_node("r1", 1);
  fleet.start_node("r1", 2);
  ASSERT_EQ(fleet.wait_joined(3), 3u);
  std::uint64_t anchor_bytes = 0;  // with metas and records, which are less than the delta
  for (int n = 0; n <= 1; ++n) {
    Ran seeded = fleet.seed(step(n), {"--anchor-every", "2", "--wait-active", "100%"});
    ASSERT_EQ(seeded.exit_code, 0) << seeded.err;
    if (n == 1) anchor_bytes = seeded.json["anchor_bytes"];
  }
  ASSERT_GT(anchor_bytes, 0u);
  ASSERT_EQ(fleet.seed(step(2), {"--anchor-every", "0", "--wait-active", "100%"}).exit_code, 0);
  ASSERT_TRUE(until_log("r1-1", "\"event\":\"anchor\",\"version\":2"));
  std::size_t held = 0;
  const Ran kept = fleet.p2pw("r1-1", {"gc"});
  for (auto& run : kept.json["runs"]) held += run["version"] <= 2;
  ASSERT_EQ(held, 2u) << "the first anchor and its delta must lie in the other region for this test: " << kept.out;

  fleet.start_node("r2", 1);
  EXPECT_TRUE(until_exact("r2-1", step(2), 60));
  EXPECT_EQ(fleet.payload_into(1)["r2"], 0u) << "the first anchor: " << fleet.p2pw("r2-1", {"log"}).out;
  const std::uint64_t second = fleet.payload_into(2)["r2"];
  EXPECT_LE(second, anchor_bytes) << "the newest anchor once, and not its version's delta";
  EXPECT_GT(second, anchor_bytes - fleet.used_bytes(2));
  EXPECT_EQ(fleet.payload_into(3)["r2"], fleet.used_bytes(3)) << "the delta since";
}

}  // namespace
}  // namespace p2pw::testing
