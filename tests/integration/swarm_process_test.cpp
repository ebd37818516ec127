// The process that runs a node's swarm, in real fleets: it may die at any moment, and goes with its daemon.
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <iostream>

#include "tests/integration/fleet.h"

namespace p2pw::testing {
namespace {

class SwarmProcessTest : public ::testing::Test {
 protected:
  void TearDown() override {
    if (HasFailure()) std::cerr << fleet.logs();
  }
  void start(int nodes) {
    fleet.start_trainer();
    for (int n = 1; n <= nodes; ++n) fleet.start_node("r1", n);
    followers = static_cast<std::size_t>(nodes) + 1;
    ASSERT_EQ(fleet.wait_joined(followers), followers);
  }
  void expect_all_serve(const std::filesystem::path& checkpoint) {
    for (const std::string& name : fleet.nodes()) EXPECT_TRUE(same_tree(checkpoint, fleet.current(name))) << name;
  }
  bool until(const std::string& name, const std::string& event) {
    for (int i = 0; i < 2000; ++i) {
      if (fleet.p2pw(name, {"log"}).out.find('"' + event + '"') != std::string::npos) return true;
    }
    return false;
  }
  std::filesystem::path step(int n) const { return series / ("step_000" + std::to_string(n)); }

  Fleet fleet;
  std::size_t followers = 0;
  std::filesystem::path series = fleet.path() / "series";
};

bool gone(pid_t pid) {
  for (int i = 0; i < 10'000; ++i) {
    std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
    std::string line;
    if (!std::getline(in, line) || line.find(") Z ") != std::string::npos) return true;
    usleep(1000);
  }
  return false;
}

TEST_F(SwarmProcessTest, TransfersGoOnWhenItIsKilled) {
  make_series(series, "48MiB", 1);
  start(3);
  Ran before = fleet.p2pw("r1-2", {"status"});
  EXPECT_TRUE(before.json["swarm"].get<std::string>().starts_with("a process of its own")) << before.out;
  Process seed(fleet.p2pw_command("trainer", {"seed", step(0).string()}), fleet.path() / "seed.log");
  ASSERT_TRUE(until("r1-2", "first-chunk"));
  for (const char* name : {"r1-2", "r1-3"}) {
    const pid_t pid = fleet.swarm_pid(name);
    ASSERT_GT(pid, 0) << name;
    ASSERT_EQ(::kill(pid, SIGKILL), 0);
  }
  EXPECT_EQ(seed.wait(), 0);
  EXPECT_EQ(fleet.wait_active(1, followers), followers);
  expect_all_serve(step(0));
  EXPECT_TRUE(until("r1-2", "swarm-ended"));
  EXPECT_GE(fleet.p2pw("r1-2", {"status"}).json["swarm_ended"], 1);
  EXPECT_NE(fleet.p2pw("r1-2", {"doctor"}).out.find("ended unasked"), std::string::npos);
  ASSERT_EQ(fleet.seed(step(1), {"--wait-active", "100%"}).exit_code, 0);
  expect_all_serve(step(1));
  EXPECT_EQ(fleet.payload_into(2)["r1"], fleet.used_bytes(2));
}

TEST_F(SwarmProcessTest, ItIsGoneWithItsDaemonAndATrainerHasNone) {
  make_series(series, "1MiB", 0);
  start(2);
  EXPECT_EQ(fleet.swarm_pid("trainer"), 0);
  EXPECT_EQ(fleet.p2pw("trainer", {"status"}).json["swarm"], "");
  const pid_t killed = fleet.swarm_pid("r1-1"), stopped = fleet.swarm_pid("r1-2");
  ASSERT_GT(killed, 0);
  ASSERT_GT(stopped, 0);
  fleet.kill("r1-1");
  EXPECT_TRUE(gone(killed));
  // As a service manager does: all processes of the service at once.
  ::kill(stopped, SIGTERM);
  fleet.stop_all();
  EXPECT_TRUE(gone(stopped));
}

}  // namespace
}  // namespace p2pw::testing
