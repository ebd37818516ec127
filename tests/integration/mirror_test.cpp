// Shared storage with real daemons: a fleet fills it, everything but keys and the mirror is lost, and a fresh region comes
// up from it without a trainer.
#include <gtest/gtest.h>

#include <poll.h>

#include <fstream>

#include "tests/integration/fleet.h"

namespace p2pw::testing {
namespace {

namespace fs = std::filesystem;

class MirrorTest : public ::testing::Test {
 protected:
  void TearDown() override {
    if (HasFailure()) std::cerr << fleet.logs();
  }
  fs::path step(int n) const { return series / ("step_000" + std::to_string(n)); }
  fs::path mirror() const { return fleet.path() / "mirror"; }

  static std::function<void(Config&)> with_mirror(const std::string& url, bool write = true) {
    return [=](Config& config) {
      auto parsed = parse_mirror_url(url);
      ASSERT_TRUE(parsed.ok()) << parsed.error().message;
      config.mirror = *parsed;
      config.mirror_write = write;
    };
  }

  // Polls until `done`; for what no verb waits for.
  static bool until(const std::function<bool()>& done, int seconds = 90) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    while (std::chrono::steady_clock::now() < deadline) {
      if (done()) return true;
      poll(nullptr, 0, 100);
    }
    return done();
  }

  std::uint64_t active_on(const std::string& name) {
    Ran status = fleet.p2pw(name, {"status"});
    return status.exit_code == 0 ? status.json["channels"][0]["version_active"].get<std::uint64_t>() : 0;
  }
  std::string events_of(const std::string& name) { return fleet.p2pw(name, {"log"}).out; }

  // Publishes the first `versions` steps with one node beside the trainer, and waits until the mirror has them.
  void publish(const std::string& url, int versions) {
    make_series(series, "8MiB", versions - 1);
    fleet.start_trainer(with_mirror(url));
    fleet.start_node("r1", 1, with_mirror(url));
    ASSERT_EQ(fleet.wait_joined(2), 2u);
    for (int n = 0; n < versions; ++n) {
      Ran seeded = fleet.seed(step(n), {"--wait-active", "100%"});
      ASSERT_EQ(seeded.exit_code, 0) << seeded.err;
    }
    const std::string wanted = "\"mirror-written\",\"version\":" + std::to_string(versions);
    ASSERT_TRUE(until([&] { return events_of("trainer").find(wanted) != std::string::npos; })) << events_of("trainer");
    used = 0;
    for (int n = 1; n <= versions; ++n) used += fleet.used_bytes(static_cast<std::uint64_t>(n));
  }

  // Stops everything; nodes 1 to `nodes` of r1 come back with nothing but their keys, the first one as bootstrap daemon.
  void lose_everything(int nodes, const std::string& url) {
    for (int n = 2; n <= nodes; ++n) fleet.start_node("r1", n, with_mirror(url));
    ASSERT_EQ(fleet.wait_joined(static_cast<std::size_t>(nodes) + 1), static_cast<std::size_t>(nodes) + 1);
    const auto first = NodeKey::from_hex(fleet.p2pw("r1-1", {"status"}).json["node"].get<std::string>());
    fleet.stop_all();
    for (int n = 1; n <= nodes; ++n) {
      const std::string name = "r1-" + std::to_string(n);
      fs::remove_all(fleet.folder(name) / "state" / "channels");
      fleet.configure(name, with_mirror(url));
      fleet.configure(name, [&](Config& config) {
        config.node.bootstrap = n == 1;
        if (n > 1) config.bootstrap.push_back({fleet.address("r1", 1), kDefaultLinkPort, first, config.node.region, false});
        config.listen.advertise = config.listen.address;
      });
    }
  }
  void start_region(int nodes) {
    for (int n = 1; n <= nodes; ++n) fleet.start("r1-" + std::to_string(n));
  }
  bool region_serves(int nodes, std::uint64_t version, const fs::path& checkpoint) {
    return until([&] {
      for (int n = 1; n <= nodes; ++n) {
        if (active_on("r1-" + std::to_string(n)) != version) return false;
      }
      return true;
    }) && [&] {
      for (int n = 1; n <= nodes; ++n) {
        if (!same_tree(checkpoint, fleet.current("r1-" + std::to_string(n)))) return false;
      }
      return true;
    }();
  }
  // Payload of bundles that the region has taken from the mirror.
  std::uint64_t read_from_mirror(int nodes) {
    std::uint64_t total = 0;
    for (int n = 1; n <= nodes; ++n) {
      Ran status = fleet.p2pw("r1-" + std::to_string(n), {"status"});
      if (status.exit_code == 0) total += status.json["mirror"]["chunk_bytes_read"].get<std::uint64_t>();
    }
    return total;
  }

  Fleet fleet;
  fs::path series = fleet.path() / "series";
  std::uint64_t used = 0;  // bytes of all bundles published
};

TEST_F(MirrorTest, AFreshRegionStartsFromTheFolderWithoutATrainerAtOneCopy) {
  fs::create_directories(mirror());
  const std::string url = "file://" + mirror().string();
  publish(url, 3);
  lose_everything(3, url);
  start_region(3);
  EXPECT_TRUE(region_serves(3, 3, step(2)));
  EXPECT_EQ(read_from_mirror(3), used);
}

}  // namespace
}  // namespace p2pw::testing
