// A node whose disk is full says so, loses nothing, and goes on by itself once there is room. With a small file system of
// its own, so it needs root.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mount.h>
#include <unistd.h>

#include <chrono>

#include "tests/integration/fleet.h"

namespace p2pw::testing {
namespace {

class SmallDisk {
 public:
  SmallDisk(std::filesystem::path at, const char* size) : at_(std::move(at)) {
    std::filesystem::create_directories(at_);
    mounted_ = mount("p2pw-test", at_.c_str(), "tmpfs", 0, (std::string("size=") + size).c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_) umount2(at_.c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }
  void grow(const char* size) const {
    ASSERT_EQ(mount("p2pw-test", at_.c_str(), "tmpfs", MS_REMOUNT, (std::string("size=") + size).c_str()), 0);
  }

 private:
  std::filesystem::path at_;
  bool mounted_ = false;
};

class DiskFullTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root, to mount a small disk";
  }
  void TearDown() override {
    if (HasFailure()) std::cerr << fleet.logs();
  }
  bool until(const std::function<bool()>& done, int seconds = 40) {
    auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    while (std::chrono::steady_clock::now() < deadline) {
      if (done()) return true;
      poll(nullptr, 0, 50);
    }
    return done();
  }
  std::string problem_of(const std::string& name) {
    const Ran status = fleet.p2pw(name, {"status"});
    return status.json.is_object() ? status.json["channels"][0]["problem"].get<std::string>() : "no status";
  }
  // Two nodes of one region; the first one's `part` of the state lies on a disk of 3 MiB, and the anchor weighs 10.
  void run(const std::function<void(Config&, const std::filesystem::path& disk)>& place, const std::filesystem::path& current) {
    SmallDisk disk(fleet.path() / "disk", "3M");
    if (!disk.mounted()) GTEST_SKIP() << "mounting is not allowed here";
    make_series(series, "16MiB", 1);
    fleet.start_trainer();
    fleet.start_node("r1", 1, [&](Config& config) { place(config, fleet.path() / "disk"); });
    fleet.start_node("r1", 2);
    ASSERT_EQ(fleet.wait_joined(3), 3u);
    ASSERT_EQ(fleet.seed(series / "step_0000").exit_code, 0);
    ASSERT_TRUE(until([&] { return problem_of("r1-1").find("No space") != std::string::npos; })) << fleet.p2pw("r1-1", {"status"}).out;
    EXPECT_TRUE(until([&] { return same_tree(series / "step_0000", fleet.current("r1-2")); })) << "the other one waits";
    disk.grow("80M");
    ASSERT_EQ(fleet.wait_active(1, 3), 3u);
    EXPECT_TRUE(same_tree(series / "step_0000", current));
    ASSERT_EQ(fleet.seed(series / "step_0001", {"--wait-active", "100%"}).exit_code, 0);
    EXPECT_TRUE(same_tree(series / "step_0001", current));
    EXPECT_EQ(problem_of("r1-1"), "");
    fleet.stop_all();
  }

  Fleet fleet;
  std::filesystem::path series = fleet.path() / "series";
};

TEST_F(DiskFullTest, WhereBundlesLie) {
  run([&](Config& config, const std::filesystem::path& disk) {
    const auto bundles = config.paths().bundles(config.channels.at(0).name);
    std::filesystem::create_directories(bundles.parent_path());
    std::filesystem::create_directory_symlink(disk, bundles);
  }, fleet.current("r1-1"));
}

TEST_F(DiskFullTest, WhereSlotsLie) {
  run([](Config& config, const std::filesystem::path& disk) { config.channels.at(0).root = disk / "slots"; },
      fleet.path() / "disk" / "slots" / "current");
}

}  // namespace
}  // namespace p2pw::testing
