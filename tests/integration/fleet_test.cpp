// The main job, with real daemons on loopback: what a user is promised, from `seed` to `current`.
#include "tests/integration/fleet.h"

#include <gtest/gtest.h>
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
