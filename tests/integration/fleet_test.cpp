// The main job, with real daemons on loopback: what a user is promised, from `seed` to `current`.
#include "tests/integration/fleet.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>

#include <fstream>

#include "daemon/client/publish_client.h"
#include "protocol/publish.pb.h"

namespace p2pw::testing {
namespace {

class FleetTest : public ::testing::Test {
 protected:
  void TearDown() override {
    if (HasFailure()) std::cerr << fleet.logs();
  }
  void start(int regions, int nodes) {
    fleet.start_trainer();
    for (int r = 1; r <= regions; ++r) {
      for (int n = 1; n <= nodes; ++n) fleet.start_node("r" + std::to_string(r), n);
    }
    followers = static_cast<std::size_t>(regions * nodes) + 1;
    ASSERT_EQ(fleet.wait_joined(followers), followers);
  }
  void expect_all_serve(const std::filesystem::path& checkpoint) {
    for (const std::string& name : fleet.nodes()) EXPECT_TRUE(same_tree(checkpoint, fleet.current(name))) << name;
  }
  // A bit in the middle of the largest tensor file of what `current` names.
  void rot(const std::string& name) {
    std::filesystem::path largest;
    for (auto& entry : std::filesystem::directory_iterator(std::filesystem::canonical(fleet.current(name)))) {
      if (entry.path().extension() != ".safetensors") continue;
      if (largest.empty() || entry.file_size() > std::filesystem::file_size(largest)) largest = entry.path();
    }
    std::fstream file(largest, std::ios::in | std::ios::out | std::ios::binary);
    const auto at = static_cast<std::streamoff>(std::filesystem::file_size(largest) / 2);
    file.seekg(at);
    const char flipped = static_cast<char>(file.get() ^ 1);
    file.seekp(at);
    file.put(flipped);
  }
  // Events of the daemon with this name, from now back.
  std::size_t events(const std::string& name, const std::string& event) {
    const std::string log = fleet.p2pw(name, {"log"}).out, wanted = "\"event\":\"" + event + "\"";
    std::size_t count = 0;
    for (auto at = log.find(wanted); at != log.npos; at = log.find(wanted, at + 1)) ++count;
    return count;
  }
  bool until(const std::function<bool()>& done, int seconds = 30) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    while (!done() && std::chrono::steady_clock::now() < end) poll(nullptr, 0, 50);
    return done();
  }
  std::filesystem::path step(int n) const { return series / ("step_000" + std::to_string(n)); }

  Fleet fleet;
  std::size_t followers = 0;
  std::filesystem::path series = fleet.path() / "series";
};

TEST_F(FleetTest, AnchorAndDeltasReachEveryNodeInOneCopyPerRegion) {
  make_series(series, "8MiB", 2, {"--change-config"});
  start(2, 2);
  for (int n = 0; n <= 2; ++n) {
    Ran seeded = fleet.seed(step(n), {"--wait-active", "100%"});
    ASSERT_EQ(seeded.exit_code, 0) << seeded.err;
    EXPECT_EQ(seeded.json["kind"], n == 0 ? "anchor" : "delta");
    EXPECT_EQ(seeded.json["active"], followers);
    expect_all_serve(step(n));
    auto sent = fleet.payload_into(static_cast<std::uint64_t>(n) + 1);
    std::uint64_t used = fleet.used_bytes(static_cast<std::uint64_t>(n) + 1);
    EXPECT_EQ(sent["r1"], used);
    EXPECT_EQ(sent["r2"], used);
    EXPECT_EQ(sent["out of the trainer"], used);
  }
}

TEST_F(FleetTest, NodeThatIsKilledInTheMiddleFinishesAfterItsRestart) {
  make_series(series, "48MiB", 1);
  start(1, 3);
  Process seed(fleet.p2pw_command("trainer", {"seed", step(0).string()}), fleet.path() / "seed.log");
  // As soon as the first chunk has come in.
  bool arrived = false;
  for (int i = 0; i < 2000 && !arrived; ++i) {
    Ran log = fleet.p2pw("r1-2", {"log"});
    arrived = log.out.find("first-chunk") != std::string::npos;
  }
  ASSERT_TRUE(arrived);
  fleet.kill("r1-2");
  fleet.start("r1-2");
  EXPECT_EQ(seed.wait(), 0);
  EXPECT_EQ(fleet.wait_active(1, followers), followers);
  expect_all_serve(step(0));
  ASSERT_EQ(fleet.seed(step(1), {"--wait-active", "100%"}).exit_code, 0);
  expect_all_serve(step(1));
}

TEST_F(FleetTest, SeedThatIsKilledOrInterruptedLeavesTheNextOneAlone) {
  make_series(series, "48MiB", 1);
  start(1, 1);
  for (int number : {SIGKILL, SIGINT}) {
    Process seed(fleet.p2pw_command("trainer", {"seed", step(0).string(), "--kind", "anchor"}), fleet.path() / "seed.log");
    bool begun = false;
    for (int i = 0; i < 2000 && !begun; ++i) begun = fleet.p2pw("trainer", {"log"}).out.find("\"bundle\"") != std::string::npos;
    ASSERT_TRUE(begun);
    seed.signal(number);
    seed.wait();
  }
  Ran seeded = fleet.seed(step(0), {"--wait-active", "100%"});
  ASSERT_EQ(seeded.exit_code, 0) << seeded.err;
  expect_all_serve(step(0));
  ASSERT_EQ(fleet.seed(step(1), {"--wait-active", "100%"}).exit_code, 0);
  expect_all_serve(step(1));
}

TEST_F(FleetTest, SecondSeedIsBusy) {
  make_series(series, "1MiB", 0);
  start(1, 1);
  auto socket = fleet.folder("trainer") / "state" / "publish.sock";
  auto holder = PublishClient::connect(socket);
  ASSERT_TRUE(holder.ok()) << holder.error().message;
  wire::PublishMessage open;
  open.mutable_open()->set_channel("policy");
  ASSERT_TRUE(holder->send(open).ok());
  wire::PublishMessage answer;
  Bytes payload;
  ASSERT_TRUE(holder->receive(answer, payload, std::chrono::seconds(10)).ok());
  ASSERT_TRUE(answer.has_pinned());
  EXPECT_EQ(fleet.p2pw("trainer", {"seed", step(0).string()}).exit_code, 7);
}

// What it makes deltas from is damaged: nothing of that reaches anybody, and the next seed goes through.
TEST_F(FleetTest, RotInTheTrainersSlotIsFoundBySeedAndMended) {
  make_series(series, "8MiB", 2);
  start(1, 1);
  for (int n = 0; n <= 1; ++n) ASSERT_EQ(fleet.seed(step(n), {"--wait-active", "100%"}).exit_code, 0);
  ASSERT_TRUE(until([&] { return events("trainer", "caught-up") > 0; }));
  rot("trainer");
  ASSERT_FALSE(same_tree(step(1), fleet.current("trainer")));
  Ran seeded = fleet.seed(step(2), {"--kind", "delta"});
  EXPECT_EQ(seeded.exit_code, 4) << seeded.out << seeded.err;
  EXPECT_NE(seeded.err.find("tensor slab"), seeded.err.npos) << seeded.err;
  EXPECT_TRUE(until([&] { return events("trainer", "mended") == 1; }));
  seeded = fleet.seed(step(2), {"--wait-active", "100%"});
  ASSERT_EQ(seeded.exit_code, 0) << seeded.err;
  EXPECT_EQ(seeded.json["kind"], "delta");
  expect_all_serve(step(2));
}

TEST_F(FleetTest, TheFleetGoesBackByANewerVersion) {
  make_series(series, "4MiB", 1);
  start(1, 2);
  for (int n = 0; n <= 1; ++n) ASSERT_EQ(fleet.seed(step(n), {"--wait-active", "100%"}).exit_code, 0);
  EXPECT_EQ(fleet.p2pw("trainer", {"rollback"}).exit_code, 2) << "versions only rise";
  Ran seeded = fleet.seed(step(0), {"--wait-active", "100%"});
  ASSERT_EQ(seeded.exit_code, 0) << seeded.err;
  EXPECT_EQ(seeded.json["version"], 3);
  EXPECT_EQ(seeded.json["kind"], "delta");
  expect_all_serve(step(0));
}

TEST_F(FleetTest, AnotherPublishersKeyIsRefused) {
  make_series(series, "1MiB", 0);
  start(1, 1);
  auto key = fleet.path() / "other.key";
  ASSERT_EQ(fleet.p2pw("trainer", {"keygen", "-o", key.string()}).exit_code, 0);
  Ran seeded = fleet.seed(step(0), {"--key", key.string()});
  EXPECT_EQ(seeded.exit_code, 4) << seeded.out << seeded.err;
  EXPECT_FALSE(std::filesystem::exists(fleet.current("r1-1")));
}

TEST_F(FleetTest, LateNodeRebuildsTheNewestVersionFromItsNeighbours) {
  make_series(series, "8MiB", 2);
  start(1, 2);
  for (int n = 0; n <= 2; ++n) ASSERT_EQ(fleet.seed(step(n), {"--wait-active", "100%"}).exit_code, 0);
  auto before = fleet.payload_into(1)["r1"] + fleet.payload_into(3)["r1"];
  fleet.start_node("r1", 3);
  EXPECT_EQ(fleet.wait_active(3, followers + 1), followers + 1);
  expect_all_serve(step(2));
  EXPECT_EQ(fleet.payload_into(1)["r1"] + fleet.payload_into(3)["r1"], before) << "it cost WAN bytes";
}

TEST_F(FleetTest, TrainerThatIsRestartedGoesOn) {
  make_series(series, "4MiB", 2);
  start(1, 1);
  ASSERT_EQ(fleet.seed(step(0), {"--wait-active", "100%"}).exit_code, 0);
  fleet.kill("trainer");
  fleet.start("trainer");
  ASSERT_EQ(fleet.wait_active(1, followers), followers);
  Ran seeded = fleet.seed(step(1), {"--wait-active", "100%"});
  ASSERT_EQ(seeded.exit_code, 0) << seeded.err;
  EXPECT_EQ(seeded.json["version"], 2);
  expect_all_serve(step(1));
}

}  // namespace
}  // namespace p2pw::testing
