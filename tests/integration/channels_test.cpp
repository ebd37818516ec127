// Two policies on one fleet: each in its own slots, at its own pace, and only where it is followed.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>

#include <fstream>

#include "daemon/client/api_client.h"
#include "daemon/client/publish_client.h"
#include "protocol/publish.pb.h"
#include "tests/integration/fleet.h"

namespace p2pw::testing {
namespace {

// policy is followed by all nodes, critic by the trainer, r1-1 and r1-2: not by r1-3, and by nobody in r2.
class ChannelsTest : public ::testing::Test {
 protected:
  void TearDown() override {
    if (HasFailure()) std::cerr << fleet.logs();
  }
  void start(const std::string& bytes) {
    make_series(fleet.path() / "policy", bytes, 3, {"--seed", "1"});
    make_series(fleet.path() / "critic", bytes, 4, {"--seed", "2", "--dtype", "mixed"});
    fleet.start_trainer();
    for (int n : {1, 2, 3}) fleet.start_node("r1", n);
    fleet.start_node("r2", 1);
    ASSERT_EQ(fleet.wait_joined(5), 5u);
    for (const char* name : {"trainer", "r1-1", "r1-2"}) fleet.add_channel(name, "critic");
    ASSERT_EQ(fleet.wait_joined(8), 8u) << "one row for each node and channel";
  }
  std::filesystem::path step(const std::string& channel, int n) const {
    return fleet.path() / channel / ("step_000" + std::to_string(n));
  }
  Ran publish(const std::string& channel, int n, std::vector<std::string> more = {"--wait-active", "100%"}) {
    more.insert(more.end(), {"--channel", channel});
    Ran seeded = fleet.seed(step(channel, n), more);
    EXPECT_EQ(seeded.exit_code, 0) << channel << n << seeded.err;
    return seeded;
  }
  void expect_serve(const std::string& channel, int n, const std::vector<std::string>& names) {
    for (const std::string& name : names)
      EXPECT_TRUE(same_tree(step(channel, n), fleet.current(name, channel))) << channel << name;
  }
  ApiClient api(const std::string& name) { return ApiClient(fleet.folder(name) / "state" / "api.sock"); }
  std::string metrics_of(const std::string& name) {
    auto text = api(name).metrics();
    return text.ok() ? *text : "";
  }
  std::uint64_t swarm_received(const std::string& name) {
    const std::string text = metrics_of(name);
    const std::string sample = "\np2pw_swarm_payload_bytes_total{direction=\"received\"} ";
    const auto at = text.find(sample);
    EXPECT_NE(at, std::string::npos);
    return at == std::string::npos ? 0 : std::stoull(text.substr(at + sample.size()));
  }
  bool until(const std::function<bool()>& done) {
    for (int i = 0; i < 600; ++i) {
      if (done()) return true;
      poll(nullptr, 0, 50);
    }
    return false;
  }
  const std::vector<std::string> everybody{"trainer", "r1-1", "r1-2", "r1-3", "r2-1"},
      followers{"trainer", "r1-1", "r1-2"};
  Fleet fleet;
};

TEST_F(ChannelsTest, InterleavedVersionsReachWhoFollowsAndNobodyElse) {
  start("4MiB");
  EXPECT_EQ(publish("policy", 0).json["active"], 5);
  EXPECT_EQ(publish("critic", 0).json["active"], 3);
  publish("policy", 1);
  for (int n : {1, 2}) publish("critic", n);
  publish("policy", 2);
  EXPECT_EQ(publish("critic", 3).json["version"], 4) << "numbers are a channel's own";
  expect_serve("policy", 2, everybody);
  expect_serve("critic", 3, followers);

  // One copy into the one region that follows; nothing of it at the others.
  const auto status = api("trainer").status();
  ASSERT_TRUE(status.ok());
  for (const api::CopyStatus& copy : status->copies) {
    if (copy.channel != "critic") continue;  // the other one is relayed
    EXPECT_EQ(copy.region, "r1");
    EXPECT_EQ(copy.payload_bytes, copy.used_bytes) << copy.version;
  }
  for (const char* name : {"r1-3", "r2-1"}) {
    EXPECT_FALSE(std::filesystem::exists(fleet.folder(name) / "state/channels/critic")) << name;
    EXPECT_EQ(fleet.p2pw(name, {"log"}).out.find("critic"), std::string::npos)
        << "not even its records: " << name;
  }

  // Each verb says which channel it speaks of, and asks when it must.
  EXPECT_EQ(fleet.p2pw("trainer", {"wait", "--version", "1"}).exit_code, 2);
  Ran waited = fleet.p2pw("trainer", {"wait", "--channel", "critic", "--version", "4", "--active", "100%"});
  EXPECT_EQ(waited.json["channel"], "critic");
  EXPECT_EQ(waited.json["total"], 3);
  auto log = api("r1-1").log({.channel = "critic"});
  ASSERT_TRUE(log.ok() && !log->entries.empty());
  for (const api::LogEntry& entry : log->entries) EXPECT_EQ(entry.channel, "critic");
  const auto peers = api("trainer").peers();
  ASSERT_TRUE(peers.ok());
  for (const api::PeerStatus& peer : peers->peers) {
    const bool both = peer.name == "r1-1" || peer.name == "r1-2";
    EXPECT_EQ(peer.channels.size(), both ? 2u : 1u) << peer.name;
  }
  for (const std::string channel : {"policy", "critic"}) {
    Ran kept = fleet.p2pw("r1-1", {"gc", "--channel", channel});
    ASSERT_EQ(kept.exit_code, 0) << kept.err;
    EXPECT_EQ(kept.json["channel"], channel);
    EXPECT_LE(kept.json["runs"].back()["version"], channel == "policy" ? 3 : 4);
  }
  const std::string metrics = metrics_of("r1-1");
  for (const char* sample : {"p2pw_version{channel=\"critic\",stage=\"active\"} 4",
                             "p2pw_version{channel=\"policy\",stage=\"active\"} 3"}) {
    EXPECT_NE(metrics.find(sample), std::string::npos) << sample;
  }
}

TEST_F(ChannelsTest, ANeighbourThatDoesNotFollowGetsNothingFromTheSwarm) {
  start("4MiB");
  publish("policy", 0);
  // Its counters come once a second.
  std::uint64_t before = 0;
  ASSERT_TRUE(until([&] {
    const std::uint64_t now = swarm_received("r1-3");
    return std::exchange(before, now) == now && now > 0;
  }));
  publish("critic", 0);
  publish("critic", 1);
  ASSERT_TRUE(until([&] { return swarm_received("r1-1") + swarm_received("r1-2") > 0; }));
  EXPECT_EQ(swarm_received("r1-3"), before);
  for (const char* name : {"r1-1", "r1-2"}) {
    Ran log = fleet.p2pw(name, {"log", "--after", "0", "--limit", "20000"});
    for (const char* event : {"flood", "blocked", "ban"})
      EXPECT_EQ(log.out.find("\"" + std::string(event) + "\""), std::string::npos) << name;
  }
}

TEST_F(ChannelsTest, ThePublishLockIsAChannels) {
  start("4MiB");
  auto holder = PublishClient::connect(fleet.folder("trainer") / "state" / "publish.sock");
  ASSERT_TRUE(holder.ok()) << holder.error().message;
  wire::PublishMessage open, answer;
  open.mutable_open()->set_channel("policy");
  ASSERT_TRUE(holder->send(open).ok());
  Bytes payload;
  ASSERT_TRUE(holder->receive(answer, payload, std::chrono::seconds(10)).ok());
  ASSERT_TRUE(answer.has_pinned());
  EXPECT_EQ(fleet.p2pw("trainer", {"seed", step("policy", 0).string(), "--channel", "policy"}).exit_code, 7);
  publish("critic", 0);
  holder = fail(ErrorCode::interrupted, "let go");
  // Both at once.
  Process other(fleet.p2pw_command("trainer", {"seed", step("policy", 0).string(), "--channel", "policy",
                                               "--wait-active", "100%"}),
                fleet.path() / "seed.log");
  publish("critic", 1);
  EXPECT_EQ(other.wait(), 0);
  expect_serve("policy", 0, everybody);
  expect_serve("critic", 1, followers);
}

TEST_F(ChannelsTest, ADeadVersionAndAStalledEngineHoldUpNobodyElse) {
  start("16MiB");
  publish("policy", 0);
  // r1-1's engine takes critic's weights and never answers.
  fleet.kill("r1-1");
  fleet.configure("r1-1", [](Config& config) {
    for (ChannelConfig& channel : config.channels) {
      if (channel.name.str() != "critic") continue;
      channel.hook.kind = HookKind::exec;
      channel.hook.command = {"/bin/sleep", "600"};
    }
  });
  fleet.start("r1-1");
  ASSERT_EQ(fleet.wait_active(1, 5), 5u);
  Process seed(fleet.p2pw_command("trainer", {"seed", step("critic", 0).string(), "--channel", "critic"}),
               fleet.path() / "seed.log");
  ASSERT_TRUE(until([&] {
    return fleet.p2pw("trainer", {"log", "--channel", "critic"}).out.find("\"bundle\"") != std::string::npos;
  }));
  seed.signal(SIGKILL);
  seed.wait();
  publish("policy", 1);
  publish("critic", 0, {});
  ASSERT_TRUE(until([&] {
    const auto status = api("r1-1").status();
    return status.ok() && std::any_of(status->channels.begin(), status->channels.end(), [](auto& c) {
             return c.channel == "critic" && c.state == "activating";
           });
  }));
  publish("policy", 2);
  publish("policy", 3);
  expect_serve("policy", 3, everybody);
  expect_serve("critic", 0, {"trainer", "r1-2"});
}

// systemd hands over one online key; the other channel's is in the state folder.
TEST_F(ChannelsTest, AnOnlineKeyFromTheServiceManagerIsOneChannels) {
  start("1MiB");
  publish("policy", 0);
  publish("critic", 0);
  fleet.kill("trainer");
  const auto state = fleet.folder("trainer") / "state/channels";
  const auto credentials = fleet.path() / "credentials";
  std::filesystem::create_directories(credentials);
  std::filesystem::copy_file(state / "policy/online.key", credentials / "p2pw.online.key");
  std::filesystem::remove(state / "policy/online.key");
  setenv("CREDENTIALS_DIRECTORY", credentials.c_str(), 1);
  fleet.start("trainer");
  unsetenv("CREDENTIALS_DIRECTORY");
  ASSERT_TRUE(until([&] { return api("trainer").status().ok(); }));
  publish("policy", 1);
  publish("critic", 1);
  // Each seal is followed by a head of its version.
  EXPECT_TRUE(until([&] {
    const auto status = api("r1-1").status();
    return status.ok() && std::all_of(status->channels.begin(), status->channels.end(),
                                      [](auto& c) { return c.head == "live"; });
  }));
  EXPECT_EQ(fleet.logs().find("head not signed"), std::string::npos);
}

TEST_F(ChannelsTest, WhoGivesAChannelUpIsNoLongerWaitedFor) {
  start("1MiB");
  fleet.add_channel("r2-1", "critic");
  ASSERT_EQ(fleet.wait_joined(9), 9u);
  EXPECT_EQ(publish("critic", 0).json["active"], 4);
  fleet.kill("r2-1");
  fleet.configure("r2-1", [](Config& config) {
    std::erase_if(config.channels, [](auto& c) { return c.name.str() == "critic"; });
  });
  fleet.start("r2-1");
  ASSERT_TRUE(until([&] { return fleet.p2pw("trainer", {"status"}).json["nodes"].size() == 8; }))
      << "its row is gone";
  // More versions than a region that counts may lack: these wait for those that do.
  for (int n : {1, 2, 3, 4}) publish("critic", n, {});
  EXPECT_EQ(fleet.wait_active(5, 3, 60, "critic"), 3u);
  expect_serve("critic", 4, followers);
}

}  // namespace
}  // namespace p2pw::testing
