// Secrets and keys that are replaced while the fleet goes on.
#include <gtest/gtest.h>

#include <fstream>
#include <poll.h>

#include "daemon/client/fleet_secrets.h"
#include "tests/integration/fleet.h"

namespace p2pw::testing {
namespace {

class RotationTest : public ::testing::Test {
 protected:
  void SetUp() override { make_series(series, "1MiB", 4); }
  void TearDown() override {
    if (HasFailure()) std::cerr << fleet.logs();
  }
  void start(int nodes) {
    fleet.start_trainer();
    for (int n = 1; n <= nodes; ++n) fleet.start_node("r" + std::to_string(n), 1);
    followers = static_cast<std::size_t>(nodes) + 1;
    ASSERT_EQ(fleet.wait_joined(followers), followers);
  }
  void publish(int n) {
    Ran seeded = fleet.seed(step(n), {"--wait-active", "100%"});
    ASSERT_EQ(seeded.exit_code, 0) << seeded.err;
  }
  std::string newest_secret(const std::string& name) {
    auto secrets = load_fleet_secrets(StatePaths(fleet.folder(name) / "state"));
    return secrets.ok() && !secrets->empty() ? secrets->front().id().hex() : "";
  }
  bool until(const std::function<bool()>& done) {
    for (int i = 0; i < 400; ++i) {
      if (done()) return true;
      poll(nullptr, 0, 50);
    }
    return false;
  }
  std::filesystem::path step(int n) const { return series / ("step_000" + std::to_string(n)); }

  Fleet fleet;
  std::size_t followers = 0;
  std::filesystem::path series = fleet.path() / "series";
};

TEST_F(RotationTest, TheFleetSecretReachesEveryoneAndOldLineagesStayReadable) {
  start(2);
  publish(0);
  fleet.kill("r2-1");  // misses the handover
  Ran rotated = fleet.p2pw("trainer", {"rotate", "fleet-secret"});
  ASSERT_EQ(rotated.exit_code, 0) << rotated.err;
  const std::string id = rotated.json["secret_id"];
  EXPECT_EQ(fleet.p2pw("trainer", {"rotate", "fleet-secret"}).exit_code, 2) << "the first one is not finished";
  EXPECT_TRUE(until([&] { return newest_secret("r1-1") == id; }));
  fleet.start("r2-1");
  EXPECT_TRUE(until([&] { return newest_secret("r2-1") == id; })) << "it gets its copy when it is back";
  publish(1);
  ASSERT_EQ(fleet.p2pw("trainer", {"rotate", "fleet-secret", "--finish"}).exit_code, 0);
  EXPECT_EQ(fleet.wait_joined(followers), followers);
  publish(2);
  // A newcomer needs version 1, sealed with the old secret, to get at version 3.
  fleet.start_node("r1", 2);
  EXPECT_EQ(fleet.wait_active(3, followers + 1), followers + 1);
  for (const std::string& name : fleet.nodes()) EXPECT_TRUE(same_tree(step(2), fleet.current(name))) << name;
}

TEST_F(RotationTest, WhoIsLeftOutIsShutOut) {
  start(2);
  publish(0);
  const std::string out = fleet.p2pw("r2-1", {"status"}).json["node"];
  Ran rotated = fleet.p2pw("trainer", {"rotate", "fleet-secret", "--without", out});
  ASSERT_EQ(rotated.exit_code, 0) << rotated.err;
  const std::string id = rotated.json["secret_id"];
  ASSERT_TRUE(until([&] { return newest_secret("r1-1") == id; }));
  ASSERT_EQ(fleet.p2pw("trainer", {"rotate", "fleet-secret", "--finish"}).exit_code, 0);
  EXPECT_TRUE(until([&] { return fleet.p2pw("r2-1", {"status"}).json["links"].empty(); }));
  Ran seeded = fleet.seed(step(1));
  ASSERT_EQ(seeded.exit_code, 0) << seeded.err;
  EXPECT_EQ(fleet.wait_active(2, 2), 2u);
  EXPECT_TRUE(same_tree(step(1), fleet.current("r1-1")));
  EXPECT_TRUE(same_tree(step(0), fleet.current("r2-1"))) << "it keeps what it had, and gets nothing more";
  EXPECT_NE(newest_secret("r2-1"), id);
}

TEST_F(RotationTest, ANodesKey) {
  start(1);
  publish(0);
  const std::string before = fleet.p2pw("r1-1", {"status"}).json["node"];
  Ran rotated = fleet.p2pw("r1-1", {"rotate", "node-key"});
  ASSERT_EQ(rotated.exit_code, 0) << rotated.err;
  fleet.kill("r1-1");
  fleet.start("r1-1");
  EXPECT_TRUE(until([&] {
    Ran status = fleet.p2pw("r1-1", {"status"});
    return status.json.is_object() && status.json["node"] == rotated.json["node"] && !status.json["links"].empty();
  }));
  EXPECT_NE(rotated.json["node"], before);
  EXPECT_EQ(fleet.seed(step(1)).exit_code, 0);
  EXPECT_EQ(fleet.wait_active(2, 2), 2u);
  EXPECT_TRUE(same_tree(step(1), fleet.current("r1-1")));
}

TEST_F(RotationTest, ThePublishersKey) {
  start(2);
  publish(0);
  publish(1);
  Ran rotated = fleet.p2pw("trainer", {"rotate", "publisher-key"});
  ASSERT_EQ(rotated.exit_code, 0) << rotated.err;
  const std::string line = rotated.json["publisher"];
  // One machine after the other; all serve version 2 meanwhile.
  for (const char* name : {"r1-1", "trainer", "r2-1"}) {
    if (std::string(name) != "trainer") {
      ASSERT_EQ(fleet.p2pw(name, {"rotate", "publisher-key", "--accept", line}).exit_code, 0);
    }
    fleet.kill(name);
    fleet.start(name);
    EXPECT_TRUE(until([&] { return fleet.p2pw(name, {"status"}).exit_code == 0; }));
    EXPECT_TRUE(same_tree(step(1), fleet.current(name))) << name;
  }
  EXPECT_EQ(fleet.wait_joined(followers), followers);
  Ran seeded = fleet.seed(step(2), {"--wait-active", "100%"});
  ASSERT_EQ(seeded.exit_code, 0) << seeded.err;
  EXPECT_EQ(seeded.json["version"], 3);
  EXPECT_EQ(seeded.json["kind"], "anchor") << "another key's version is nobody's parent";
  for (const std::string& name : fleet.nodes()) EXPECT_TRUE(same_tree(step(2), fleet.current(name))) << name;
  publish(3);
  for (const std::string& name : fleet.nodes()) EXPECT_TRUE(same_tree(step(3), fleet.current(name))) << name;
  // The old key publishes nothing any more.
  Ran old = fleet.seed(step(1), {"--key", (fleet.folder("trainer") / "publisher.key.old").string()});
  EXPECT_EQ(old.exit_code, 4) << old.out << old.err;
}

}  // namespace
}  // namespace p2pw::testing
