// Shared storage with real daemons: a fleet fills it, everything but keys and the mirror is lost, and a fresh region comes
// up from it without a trainer.
#include <gtest/gtest.h>

#include <poll.h>
#include <signal.h>

#include <fstream>
#include <sstream>

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

  std::function<void(Config&)> with_mirror(const std::string& url) {
    return [=, this](Config& config) {
      auto parsed = parse_mirror_url(url);
      ASSERT_TRUE(parsed.ok()) << parsed.error().message;
      config.mirror = *parsed;
      if (parsed->kind != MirrorUrl::Kind::s3) return;
      config.mirror_credentials = fleet.path() / "credentials";
      std::ofstream(config.mirror_credentials)
          << "[default]\naws_access_key_id = " << id << "\naws_secret_access_key = " << secret << "\n";
      fs::permissions(config.mirror_credentials, fs::perms::owner_read | fs::perms::owner_write);
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

  std::uint64_t written_by_trainer() {
    Ran status = fleet.p2pw("trainer", {"status"});
    return status.exit_code == 0 ? status.json["mirror"]["version"].get<std::uint64_t>() : 0;
  }

  // Publishes the first `versions` steps with one node beside the trainer, and waits until the mirror has them.
  void publish(const std::string& url, int versions, int more = 0) {
    make_series(series, "8MiB", versions - 1 + more);
    fleet.start_trainer(with_mirror(url));
    fleet.start_node("r1", 1, with_mirror(url));
    ASSERT_EQ(fleet.wait_joined(2), 2u);
    for (int n = 0; n < versions; ++n) {
      Ran seeded = fleet.seed(step(n), {"--wait-active", "100%"});
      ASSERT_EQ(seeded.exit_code, 0) << seeded.err;
    }
    ASSERT_TRUE(until([&] { return written_by_trainer() == static_cast<std::uint64_t>(versions); }))
        << events_of("trainer");
    used = 0;
    for (int n = 1; n <= versions; ++n) used += fleet.used_bytes(static_cast<std::uint64_t>(n));
  }

  // Stops everything; nodes 1 to `nodes` of the regions come back with nothing but their keys, the first one
  // of each as bootstrap daemon. `mirrors`: whether a node has the mirror then.
  void lose_everything(int nodes, const std::string& url, int regions = 1,
                       const std::function<bool(int region, int node)>& mirrors = nullptr) {
    for (int r = 1; r <= regions; ++r) {
      for (int n = r == 1 ? 2 : 1; n <= nodes; ++n) fleet.start_node(region(r), n, with_mirror(url));
    }
    const auto followers = static_cast<std::size_t>(nodes * regions) + 1;
    ASSERT_EQ(fleet.wait_joined(followers), followers);
    std::vector<BootstrapConfig> first;
    for (int r = 1; r <= regions; ++r) {
      const Ran status = fleet.p2pw(region(r) + "-1", {"status"});
      first.push_back({fleet.address(region(r), 1), kDefaultLinkPort,
                       NodeKey::from_hex(status.json["node"].get<std::string>()), *Region::parse(region(r)),
                       false});
    }
    fleet.stop_all();
    for (int r = 1; r <= regions; ++r) {
      for (int n = 1; n <= nodes; ++n) {
        const std::string name = region(r) + "-" + std::to_string(n);
        fs::remove_all(fleet.folder(name) / "state" / "channels");
        if (!mirrors || mirrors(r, n)) fleet.configure(name, with_mirror(url));
        fleet.configure(name, [&](Config& config) {
          if (mirrors && !mirrors(r, n)) config.mirror = {};
          config.node.bootstrap = n == 1;
          for (int other = 1; other <= regions; ++other) {
            const bool seeks = n == 1 ? other != r : other == r;
            if (seeks) config.bootstrap.push_back(first[static_cast<std::size_t>(other - 1)]);
          }
          config.listen.advertise = config.listen.address;
        });
      }
    }
  }
  static std::string region(int number) { return "r" + std::to_string(number); }
  void start_region(int nodes, int number = 1) {
    for (int n = 1; n <= nodes; ++n) fleet.start(region(number) + "-" + std::to_string(n));
  }
  bool region_serves(int nodes, std::uint64_t version, const fs::path& checkpoint, int number = 1) {
    auto each = [&](const std::function<bool(const std::string&)>& is_so) {
      for (int n = 1; n <= nodes; ++n) {
        if (!is_so(region(number) + "-" + std::to_string(n))) return false;
      }
      return true;
    };
    return until([&] { return each([&](auto& name) { return active_on(name) == version; }); }) &&
           each([&](auto& name) { return same_tree(checkpoint, fleet.current(name)); });
  }
  // Payload of bundles that the region has taken from the mirror.
  std::uint64_t read_from_mirror(int nodes, int number = 1) {
    std::uint64_t total = 0;
    for (int n = 1; n <= nodes; ++n) {
      Ran status = fleet.p2pw(region(number) + "-" + std::to_string(n), {"status"});
      if (status.exit_code == 0) total += status.json["mirror"]["chunk_bytes_read"].get<std::uint64_t>();
    }
    return total;
  }

  std::string folder_url() const { return "file://" + mirror().string(); }
  bool has_event(const std::string& name, const std::string& event, const std::string& detail) {
    std::istringstream lines(events_of(name));
    for (std::string line; std::getline(lines, line);) {
      auto entry = nlohmann::json::parse(line, nullptr, false);
      if (entry.is_object() && entry.value("event", "") == event &&
          entry.value("detail", "").find(detail) != std::string::npos)
        return true;
    }
    return false;
  }
  std::uint64_t version_in_mirror() {
    for (auto& entry : fs::recursive_directory_iterator(mirror())) {
      if (entry.path().filename() != "newest") continue;
      std::ifstream file(entry.path());
      std::string prefix;
      std::uint64_t version = 0;
      file >> prefix >> version;
      return version;
    }
    return 0;
  }

  // S3.
  std::string s3_url(const std::string& endpoint) const { return "s3://weights/fleet-1?endpoint=" + endpoint; }
  Process start_own_s3() {
    fs::create_directories(fleet.path() / "s3");
    return Process({"/usr/bin/python3", "-B", std::string(P2PW_SOURCE_DIR) + "/tests/support/s3_server.py", "--listen",
                    fleet.address("web", 1) + ":9000", "--folder", (fleet.path() / "s3").string(), "--id", id, "--secret",
                    secret, "--log", (fleet.path() / "s3.log").string()},
                   fleet.path() / "s3.out");
  }
  void publish_and_come_back(const std::string& endpoint) {
    publish(s3_url(endpoint), 3);
    lose_everything(2, s3_url(endpoint));
    start_region(2);
    EXPECT_TRUE(region_serves(2, 3, step(2)));
    EXPECT_EQ(read_from_mirror(2), used);
  }

  // A web server.
  Process start_nginx() {
    const fs::path folder = fleet.path() / "nginx";
    fs::create_directories(folder);
    std::ofstream(folder / "conf") << "daemon off; worker_processes 1; pid " << (folder / "pid").string() << "; error_log "
                                   << (folder / "error.log").string()
                                   << ";\nevents {}\nhttp {\n  log_format bytes '$request_uri $status $body_bytes_sent';\n"
                                   << "  access_log " << (folder / "access.log").string()
                                   << " bytes;\n  server {\n    listen " << fleet.address("web", 1)
                                   << ":8080;\n    location /weights/ { alias " << mirror().string() << "/; }\n  }\n}\n";
    // Its workers run as somebody else and must get at the folder.
    for (fs::path up = mirror(); up != fs::temp_directory_path() && up.has_relative_path(); up = up.parent_path()) {
      fs::permissions(up, fs::perms::others_read | fs::perms::others_exec, fs::perm_options::add);
    }
    return Process(
        {"/usr/sbin/nginx", "-e", (folder / "error.log").string(), "-p", folder.string(), "-c", (folder / "conf").string()},
        folder / "out");
  }
  std::uint64_t bytes_in_access_log() {
    std::ifstream log(fleet.path() / "nginx" / "access.log");
    std::uint64_t total = 0, bytes = 0;
    std::string path;
    for (int status = 0; log >> path >> status >> bytes;) {
      if (path.ends_with(".bundle") && status < 300) total += bytes;
    }
    return total;
  }

  Fleet fleet;
  std::string id = "AKIDEXAMPLE", secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";  // of the S3 store
  fs::path series = fleet.path() / "series";
  std::uint64_t used = 0;  // bytes of all bundles published
};

TEST_F(MirrorTest, AFreshRegionStartsFromTheFolderWithoutATrainerAtOneCopy) {
  fs::create_directories(mirror());
  publish(folder_url(), 3);
  lose_everything(3, folder_url());
  start_region(3);
  EXPECT_TRUE(region_serves(3, 3, step(2)));
  EXPECT_EQ(read_from_mirror(3), used);
}

TEST_F(MirrorTest, TwoRegionsThatStartEmptyAtTheSameTimeServeEachOtherAtOneCopy) {
  fs::create_directories(mirror());
  publish(folder_url(), 2);
  lose_everything(2, folder_url(), 2);
  start_region(2, 1);
  start_region(2, 2);
  EXPECT_TRUE(region_serves(2, 2, step(1), 1));
  EXPECT_TRUE(region_serves(2, 2, step(1), 2));
  std::map<std::string, std::uint64_t> came{{"r1", read_from_mirror(2, 1)}, {"r2", read_from_mirror(2, 2)}};
  EXPECT_LT(came["r1"] + came["r2"], 2 * used) << "both have read all of it";
  for (std::uint64_t version : {1, 2}) {
    auto over_links = fleet.payload_into(version);
    came["r1"] += over_links["r1"];
    came["r2"] += over_links["r2"];
  }
  EXPECT_EQ(came["r1"], used);
  EXPECT_EQ(came["r2"], used);
}

TEST_F(MirrorTest, ARegionIsServedByTheOneNodeThatHasTheMirror) {
  fs::create_directories(mirror());
  publish(folder_url(), 2);
  lose_everything(3, folder_url(), 1, [](int, int node) { return node == 3; });
  start_region(3);
  EXPECT_TRUE(region_serves(3, 2, step(1)));
  EXPECT_EQ(read_from_mirror(3), used);
}

TEST_F(MirrorTest, TheSameFromAWebServerThatServesTheFolder) {
  if (!fs::exists("/usr/sbin/nginx")) GTEST_SKIP() << "nginx is not installed (apt-get install nginx-light)";
  fs::create_directories(mirror());
  publish(folder_url(), 3);
  Process nginx = start_nginx();
  lose_everything(2, "http://" + fleet.address("web", 1) + ":8080/weights");
  start_region(2);
  EXPECT_TRUE(region_serves(2, 3, step(2)));
  EXPECT_EQ(read_from_mirror(2), used);
  // Each chunk once, as the server saw it.
  EXPECT_EQ(bytes_in_access_log(), used);
  nginx.signal(SIGTERM);
  nginx.wait();
}

TEST_F(MirrorTest, TheSameFromAnS3StoreThatChecksSignatures) {
  Process server = start_own_s3();
  publish_and_come_back("http://" + fleet.address("web", 1) + ":9000");
  std::ifstream log(fleet.path() / "s3.log");
  const std::string requests((std::istreambuf_iterator<char>(log)), {});
  EXPECT_EQ(requests.find(" 403\n"), std::string::npos) << requests;
  server.signal(SIGTERM);
  server.wait();
}

TEST_F(MirrorTest, TheSameFromAnotherS3Server) {
  const char* place = std::getenv("P2PW_S3RVER");
  if (place == nullptr)
    GTEST_SKIP() << "P2PW_S3RVER names no s3rver: npm install --prefix DIR s3rver, "
                    "P2PW_S3RVER=DIR/node_modules/s3rver/bin/s3rver.js";
  fs::create_directories(fleet.path() / "s3rver");
  id = secret = "S3RVER";  // it knows no others
  Process server({"/usr/bin/env", "node", place, "--directory", (fleet.path() / "s3rver").string(), "--address",
                  fleet.address("web", 1), "--port", "9000", "--configure-bucket", "weights"},
                 fleet.path() / "s3rver.log");
  publish_and_come_back("http://" + fleet.address("web", 1) + ":9000");
  server.signal(SIGTERM);
  server.wait();
}

TEST_F(MirrorTest, WrongCredentialsAreNamedAndPeersServeOn) {
  Process server = start_own_s3();
  secret = "not-the-secret-of-this-store";
  make_series(series, "2MiB", 0);
  fleet.start_trainer(with_mirror(s3_url("http://" + fleet.address("web", 1) + ":9000")));
  fleet.start_node("r1", 1);
  ASSERT_EQ(fleet.wait_joined(2), 2u);
  ASSERT_EQ(fleet.seed(step(0), {"--wait-active", "100%"}).exit_code, 0);
  EXPECT_TRUE(until([&] { return has_event("trainer", "mirror-failed", "untrusted: "); }));
  EXPECT_TRUE(has_event("trainer", "mirror-failed", "SignatureDoesNotMatch")) << events_of("trainer");
  EXPECT_EQ(events_of("trainer").find(secret), std::string::npos);
  EXPECT_FALSE(fs::exists(fleet.path() / "s3" / "weights"));
  Ran doctor = fleet.p2pw("trainer", {"doctor", "--quick"});
  EXPECT_NE(doctor.out.find("SignatureDoesNotMatch"), std::string::npos) << doctor.out;
  server.signal(SIGTERM);
  server.wait();
}

TEST_F(MirrorTest, ABucketThatDoesNotExistIsSaid) {
  const char* place = std::getenv("P2PW_S3RVER");
  if (place == nullptr) GTEST_SKIP() << "P2PW_S3RVER names no s3rver; the store of the tests makes any bucket";
  fs::create_directories(fleet.path() / "s3rver");
  id = secret = "S3RVER";
  Process server({"/usr/bin/env", "node", place, "--directory", (fleet.path() / "s3rver").string(), "--address",
                  fleet.address("web", 1), "--port", "9000"},
                 fleet.path() / "s3rver.log");
  fleet.start_trainer(with_mirror(s3_url("http://" + fleet.address("web", 1) + ":9000")));
  EXPECT_TRUE(until([&] { return has_event("trainer", "mirror-failed", "NoSuchBucket"); })) << events_of("trainer");
  server.signal(SIGTERM);
  server.wait();
}

TEST_F(MirrorTest, AnObjectThatIsNotWhatWasSignedIsNamedAndPeersGiveTheRest) {
  fs::create_directories(mirror());
  publish(folder_url(), 2);
  lose_everything(1, folder_url());
  // The newest version's bundle, in its middle.
  fs::path damaged;
  for (auto& entry : fs::recursive_directory_iterator(mirror())) {
    if (entry.path().extension() != ".bundle") continue;
    if (damaged.empty() || entry.file_size() < fs::file_size(damaged)) damaged = entry.path();
  }
  ASSERT_FALSE(damaged.empty());
  {
    std::fstream file(damaged, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(fs::file_size(damaged) / 2));
    file.write("not what was signed", 19);
  }
  start_region(1);
  EXPECT_TRUE(until([&] { return has_event("r1-1", "mirror-wrong", damaged.filename().string()); })) << events_of("r1-1");
  EXPECT_EQ(active_on("r1-1"), 0u);
  fleet.start("trainer");
  EXPECT_TRUE(region_serves(1, 2, step(1)));
}

TEST_F(MirrorTest, ATrainerThatHasLostItsSlotsGoesOnFromTheMirror) {
  fs::create_directories(mirror());
  publish(folder_url(), 2, 1);
  fleet.stop_all();
  for (const char* lost : {"slots", "records", "bundles", "current", "bytes"}) {
    fs::remove_all(fleet.folder("trainer") / "state" / "channels" / "policy" / lost);
  }
  fleet.start("trainer");
  ASSERT_TRUE(until([&] { return active_on("trainer") == 2; })) << events_of("trainer");
  Ran seeded = fleet.seed(step(2));
  ASSERT_EQ(seeded.exit_code, 0) << seeded.err;
  EXPECT_EQ(seeded.json["version"], 3);
  EXPECT_EQ(seeded.json["kind"], "delta");
  EXPECT_TRUE(same_tree(step(2), fleet.current("trainer")));
  EXPECT_TRUE(until([&] { return version_in_mirror() == 3; })) << events_of("trainer");
}

TEST_F(MirrorTest, ASlabThatIsDamagedInBothSlotsComesFromTheMirror) {
  fs::create_directories(mirror());
  publish(folder_url(), 2, 1);
  ASSERT_TRUE(until([&] { return events_of("r1-1").find("\"event\":\"caught-up\",\"version\":2") != std::string::npos; }));
  fleet.kill("r1-1");
  std::size_t spoiled = 0;
  for (auto& entry : fs::recursive_directory_iterator(fleet.folder("r1-1") / "state" / "channels" / "policy")) {
    if (entry.is_symlink() || entry.path().extension() != ".safetensors") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(entry.file_size()) - 1);
    const char c = static_cast<char>(~file.get());
    file.seekp(static_cast<std::streamoff>(entry.file_size()) - 1);
    file.write(&c, 1);
    ++spoiled;
  }
  EXPECT_GE(spoiled, 2u);
  fleet.start("r1-1");
  ASSERT_EQ(fleet.wait_joined(2), 2u);
  ASSERT_EQ(fleet.seed(step(2)).exit_code, 0);
  EXPECT_TRUE(region_serves(1, 3, step(2)));
  EXPECT_TRUE(has_event("r1-1", "mirror-slab", "")) << events_of("r1-1");
}

TEST_F(MirrorTest, AMirrorThatIsGoneIsSaidAndFilledWhenItIsBack) {
  fs::create_directories(mirror());
  publish(folder_url(), 1);
  fs::rename(mirror(), fleet.path() / "elsewhere");
  make_series(fleet.path() / "more", "8MiB", 1);
  ASSERT_EQ(fleet.seed(fleet.path() / "more" / "step_0001", {"--wait-active", "100%"}).exit_code, 0);
  EXPECT_TRUE(until([&] { return has_event("trainer", "mirror-failed", "unreachable: "); })) << events_of("trainer");
  fs::rename(fleet.path() / "elsewhere", mirror());
  EXPECT_TRUE(until([&] { return has_event("trainer", "mirror-written", "") && version_in_mirror() == 2; }))
      << events_of("trainer");
  EXPECT_TRUE(has_event("trainer", "mirror-back", ""));
}

TEST_F(MirrorTest, ANodeWritesWhenTheTrainerHasNoMirror) {
  fs::create_directories(mirror());
  make_series(series, "2MiB", 0);
  fleet.start_trainer();
  fleet.start_node("r1", 1, with_mirror(folder_url()));
  ASSERT_EQ(fleet.wait_joined(2), 2u);
  ASSERT_EQ(fleet.seed(step(0), {"--wait-active", "100%"}).exit_code, 0);
  EXPECT_TRUE(until([&] { return has_event("r1-1", "mirror-written", ""); })) << events_of("r1-1");
}

}  // namespace
}  // namespace p2pw::testing
