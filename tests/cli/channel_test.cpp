// A second channel on machines that are set up: the real program, and what it leaves in their files.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "daemon/client/api.h"
#include "daemon/client/config_edit.h"
#include "daemon/client/delegate.h"
#include "daemon/client/files.h"
#include "protocol/token.h"
#include "tests/cli/fake_daemon.h"
#include "tests/cli/run_p2pw.h"

namespace p2pw {
namespace {

using testing::FakeDaemon;
using testing::Ran;
using testing::read_all;
using testing::run_p2pw;
using testing::TempDir;
using Words = std::vector<std::string>;

Channel named(const char* name) {
  return Channel::parse(name).value();
}
Json json_of(const Ran& ran) {
  return Json::parse(ran.out, nullptr, false);
}

// A trainer, or a node that joined it, whose file somebody has made his own.
struct Machine {
  TempDir dir;
  const std::filesystem::path file = dir / "etc/p2pw.toml", state = dir / "state";

  Ran p2pw(Words words) {
    words.insert(words.end(), {"--config", file, "--json"});
    return run_p2pw(words);
  }
  void set_up(Words words) {
    words.insert(words.end(), {"--address", "127.0.0.9", "--state", state});
    Ran ran = p2pw(words);
    ASSERT_EQ(ran.exit_code, 0) << ran.err;
    if (json_of(ran).contains("token")) token = json_of(ran)["token"];
    std::ofstream(file, std::ios::app) << "\n[log]   # mine\nlevel = 'debug'  # while we look for it";
    before = read_all(file);
  }
  Config config() { return load_config(file).value(); }
  // After an error: not a byte has changed, and no key or folder of the channel is there.
  void expect_untouched(const char* channel) {
    EXPECT_EQ(read_all(file), before);
    EXPECT_FALSE(std::filesystem::exists(own_key_path(file, named(channel))));
    EXPECT_FALSE(std::filesystem::exists(StatePaths(state).channel(named(channel))));
  }
  std::string token, before;
};

struct Pair {
  Machine trainer, node;
  Pair() {
    trainer.set_up({"init", "-c", "policy", "-r", "us"});
    node.set_up({"join", trainer.token, "-r", "eu"});
  }
};

TEST(ChannelAdd, OnATrainerKeepsWhatIsInTheFile) {
  Pair fleet;
  Machine& trainer = fleet.trainer;
  chmod(trainer.file.c_str(), 0644);
  Ran ran = trainer.p2pw({"channel", "add", "critic"});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_TRUE(read_all(trainer.file).starts_with(trainer.before)) << "comments and all";
  struct stat info {};
  ASSERT_EQ(stat(trainer.file.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0644u);
  const Config config = trainer.config();
  ASSERT_EQ(config.channels.size(), 2u);
  const ChannelConfig& critic = *config.channel(named("critic"));
  EXPECT_EQ(critic.publisher, config.channel(named("policy"))->publisher)
      << "one key for both, unless another is wanted";
  EXPECT_EQ(json_of(ran)["publisher"], critic.publisher.line());
  EXPECT_EQ(json_of(ran)["publisher_key"], (trainer.file.parent_path() / "publisher.key").string());
  EXPECT_EQ(config.log.level, "debug");
  // What a seed and the daemon's head need.
  RecordVerifier verifier(critic.name, critic.publisher);
  auto record =
      verifier.verify(as_bytes(read_all(StatePaths(trainer.state).delegate(critic.name))), WallTime{});
  ASSERT_TRUE(record.ok()) << record.error().message;
  auto online = SigningKey::parse(read_all(StatePaths(trainer.state).online_key(critic.name)));
  EXPECT_EQ(record->as<DelegateRecord>()->key, online->verifying_key());
  for (const char* word : {"systemctl", "p2pwd --config", "p2pw channel add critic --publisher RW",
                           "p2pw seed DIR --channel critic"}) {
    const bool usual = std::string(word) == "systemctl";
    EXPECT_EQ(ran.err.find(word) != std::string::npos, !usual) << word << "\n" << ran.err;
  }
}

TEST(ChannelAdd, WithAKeyOfItsOwn) {
  Pair fleet;
  Machine& trainer = fleet.trainer;
  ASSERT_EQ(trainer.p2pw({"channel", "add", "critic", "--new-key"}).exit_code, 0);
  ASSERT_EQ(run_p2pw({"keygen", "-o", trainer.dir / "given.key"}).exit_code, 0);
  ASSERT_EQ(trainer.p2pw({"channel", "add", "judge", "--publisher-key", trainer.dir / "given.key"}).exit_code,
            0);
  const Config config = trainer.config();
  std::set<std::string> keys;
  for (const ChannelConfig& channel : config.channels) {
    keys.insert(channel.publisher.line());
    auto key =
        SigningKey::parse(read_secret_file(publisher_key_path(trainer.file, channel.name), 4096).value());
    EXPECT_EQ(key->verifying_key(), channel.publisher) << "where seed looks for it: " << channel.name.str();
  }
  EXPECT_EQ(keys.size(), 3u);
  EXPECT_EQ(read_all(own_key_path(trainer.file, named("judge"))), read_all(trainer.dir / "given.key"));

  // One is replaced without the others.
  Ran rotated = trainer.p2pw({"rotate", "publisher-key", "--channel", "critic"});
  ASSERT_EQ(rotated.exit_code, 0) << rotated.err;
  const Config after = trainer.config();
  EXPECT_EQ(after.channel(named("critic"))->publisher.line(), json_of(rotated)["publisher"]);
  EXPECT_EQ(after.channel(named("judge"))->publisher, config.channel(named("judge"))->publisher);
  EXPECT_EQ(after.channel(named("policy"))->publisher, config.channel(named("policy"))->publisher);
  EXPECT_EQ(trainer.p2pw({"rotate", "publisher-key", "--channel", "policy"}).exit_code, 2)
      << "policy has none of its own";
}

TEST(ChannelAdd, OnANodeByNameOrByToken) {
  Pair fleet;
  ASSERT_EQ(fleet.trainer.p2pw({"channel", "add", "critic"}).exit_code, 0);
  const std::string line = fleet.trainer.config().channels[0].publisher.line();
  Ran ran = fleet.node.p2pw(
      {"channel", "add", "critic", "--publisher", line, "--slots", "1", "--root", fleet.node.dir / "fast"});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_TRUE(read_all(fleet.node.file).starts_with(fleet.node.before));
  EXPECT_EQ(json_of(ran)["current"], (fleet.node.dir / "fast/current").string());
  const Config config = fleet.node.config();
  EXPECT_EQ(config.channel(named("critic"))->slots, 1u);
  EXPECT_EQ(config.channel(named("critic"))->publisher.line(), line);

  auto token = JoinToken::parse(fleet.trainer.token).value();
  token.channel = named("judge");
  Ran by_token =
      run_p2pw({"channel", "add", "-", "--config", fleet.node.file}, token.encode().value() + "\n");
  ASSERT_EQ(by_token.exit_code, 0) << by_token.err;
  EXPECT_EQ(by_token.out, (fleet.node.state / "channels/judge/current").string() + "\n");
  EXPECT_EQ(fleet.node.config().channel(named("judge"))->publisher, token.publisher);
  EXPECT_EQ(by_token.err.find("make sure that it is of this fleet"), std::string::npos);
  token.channel = named("spy");
  token.bootstraps[0].node.data[0] ^= 1;
  Ran foreign = fleet.node.p2pw({"channel", "add", token.encode().value()});
  EXPECT_EQ(foreign.exit_code, 0);
  EXPECT_NE(foreign.err.find("make sure that it is of this fleet"), std::string::npos) << foreign.err;
}

TEST(ChannelAdd, WhatIsWrongIsToldAndLeavesNothing) {
  Pair fleet;
  const auto expect = [](Machine& machine, Words words, int code, const char* next) {
    words.insert(words.begin(), {"channel", "add"});
    Ran ran = machine.p2pw(words);
    EXPECT_EQ(ran.exit_code, code) << words[2] << ran.err;
    EXPECT_NE(ran.err.find(next), std::string::npos) << ran.err;
    machine.expect_untouched("critic");
  };
  const std::string line = fleet.trainer.config().channels[0].publisher.line();
  expect(fleet.trainer, {"policy"}, 2, "`p2pw channel list` shows what is known of it");
  expect(fleet.trainer, {"Critic!"}, 2, "use 1 to 64 characters");
  expect(fleet.trainer, {"critic", "--publisher", line}, 2, "--publisher-key FILE");
  expect(fleet.trainer, {"critic", "--slots", "1"}, 2, "a trainer needs two slots");
  expect(fleet.trainer, {fleet.trainer.token}, 2, "p2pw channel add NAME");
  expect(fleet.trainer, {"critic", "--publisher-key", fleet.trainer.dir / "none.key"}, 5, "check the path");
  expect(fleet.trainer, {"critic", "--restart"}, 2, "leave --restart out");
  expect(fleet.node, {"critic"}, 2, "--publisher LINE");
  expect(fleet.node, {"critic", "--publisher", "nonsense"}, 2, "--publisher: ");
  expect(fleet.node, {"critic", "--new-key"}, 2, "published on the trainer");
  expect(fleet.node, {"p2pw1" + std::string(300, 'x')}, 2, "copy the whole line that `p2pw token` printed");
  std::filesystem::remove(fleet.trainer.file.parent_path() / "publisher.key");
  expect(fleet.trainer, {"critic"}, 5, "--new-key");
}

TEST(ChannelAdd, AFileThatCannotBeChangedIsLeftAloneAndSoIsTheRest) {
  Pair fleet;
  Machine& trainer = fleet.trainer;
  // `channels` written as one value takes no further section.
  const std::string line = trainer.config().channels[0].publisher.line();
  std::string text = read_all(trainer.file);
  text.erase(text.find("[channels."));
  std::ofstream(trainer.file) << "channels = { policy = { publisher = '" + line + "' } }\n" + text;
  trainer.before = read_all(trainer.file);
  Ran ran = trainer.p2pw({"channel", "add", "critic", "--new-key"});
  EXPECT_EQ(ran.exit_code, 2) << ran.err;
  EXPECT_NE(ran.err.find("put this into it by hand:\n[channels.\"critic\"]\npublisher = \"RW"),
            std::string::npos)
      << ran.err;
  trainer.expect_untouched("critic");

  // The state folder cannot take the channel's files: the key that was made is gone again.
  Machine& other = fleet.node;
  other.set_up({"init", "-c", "policy", "-r", "us", "--force"});
  std::filesystem::remove_all(other.state / "channels");
  std::ofstream(other.state / "channels") << "in the way";
  Ran failed = other.p2pw({"channel", "add", "critic", "--new-key"});
  EXPECT_EQ(failed.exit_code, 1) << failed.err;
  EXPECT_NE(failed.err.find("is a file; check it"), std::string::npos) << failed.err;
  EXPECT_EQ(read_all(other.file), other.before);
  EXPECT_FALSE(std::filesystem::exists(own_key_path(other.file, named("critic"))));
}

TEST(ConfigEdit, NeedsTheOwnerAndSeesChangesOfOthers) {
  Pair fleet;
  auto config = load_config_text(fleet.node.file).value();
  EXPECT_EQ(replace_config(fleet.node.file, "something else", config.text).error().code, ErrorCode::busy);
  EXPECT_EQ(read_all(fleet.node.file), config.text);
  // A link stays one.
  const auto link = fleet.node.dir / "link.toml";
  std::filesystem::create_symlink(fleet.node.file, link);
  ASSERT_TRUE(replace_config(link, config.text, config.text + "# more\n").ok());
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(read_all(fleet.node.file), config.text + "# more\n");
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to be somebody else for a moment";
  chmod(fleet.node.dir.path().c_str(), 0755);
  ASSERT_EQ(seteuid(65534), 0);
  const Status refused = replace_config(fleet.node.file, config.text + "# more\n", config.text);
  ASSERT_EQ(seteuid(0), 0);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::usage);
  EXPECT_NE(refused.error().message.find("with sudo"), std::string::npos);
}

TEST(ConfigEdit, ReplacesThePublisherOfOneChannelOnly) {
  Pair fleet;
  ASSERT_EQ(fleet.trainer.p2pw({"channel", "add", "critic"}).exit_code, 0);
  ASSERT_EQ(fleet.trainer.p2pw({"channel", "add", "zeal"}).exit_code, 0);
  auto config = load_config_text(fleet.trainer.file).value();
  const VerifyingKey old = config.config.channels[0].publisher, key = SigningKey::generate().verifying_key();
  for (const char* name : {"policy", "zeal", "critic"}) {
    auto changed = config;
    ASSERT_TRUE(set_publisher(changed, named(name), key).ok()) << name;
    for (const ChannelConfig& channel : changed.config.channels)
      EXPECT_EQ(channel.publisher, channel.name == named(name) ? key : old);
    EXPECT_NE(changed.text.find("# while we look for it"), std::string::npos);
  }
  EXPECT_EQ(set_publisher(config, named("nobody"), key).error().code, ErrorCode::not_found);
}

TEST(ChannelList, TellsWhatIsConfiguredAndWhatTheDaemonHas) {
  Pair fleet;
  ASSERT_EQ(fleet.trainer.p2pw({"channel", "add", "critic"}).exit_code, 0);
  Json without = json_of(fleet.trainer.p2pw({"channel", "list"}));
  ASSERT_EQ(without["channels"].size(), 2u);
  EXPECT_EQ(without["channels"][0]["channel"], "critic");
  EXPECT_EQ(without["channels"][0]["state"], "no daemon answers");
  EXPECT_EQ(without["channels"][1]["publisher"], fleet.trainer.config().channels[1].publisher.line());

  api::StatusReply status;
  api::ChannelStatus& known = status.channels.emplace_back();
  known.channel = "policy";
  known.state = "idle";
  FakeDaemon daemon([&](const ApiRequest&) { return ApiResponse{200, api::to_json(status).dump()}; });
  Ran ran = run_p2pw({"channel", "list", "--config", fleet.trainer.file, "--state", daemon.state()});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_NE(ran.out.find("critic   restart p2pwd"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("policy   idle"), std::string::npos) << ran.out;
}

TEST(ChannelAdd, InitAndJoinPointToIt) {
  Pair fleet;
  Ran again = fleet.trainer.p2pw({"init", "-c", "critic", "-r", "us", "--address", "127.0.0.9"});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_NE(again.err.find("`p2pw channel add` adds a channel"), std::string::npos) << again.err;
  EXPECT_EQ(read_all(fleet.trainer.file), fleet.trainer.before);
}

// The daemon's answers with two channels are told apart on every screen.
TEST(SeveralChannels, StatusAndPeersNameThem) {
  api::StatusReply status;
  for (const char* name : {"critic", "policy"}) {
    const bool old = name[0] == 'p';
    for (std::uint64_t version : {1, 2, 3}) {
      auto& copy = status.copies.emplace_back();
      copy.channel = name;
      copy.version = version + (old ? 1000 : 0);
      copy.region = "eu";
    }
  }
  api::PeersReply peers;
  auto& peer = peers.peers.emplace_back();
  peer.name = "gpu-1";
  peer.channels = {{"critic"}, {"policy"}};
  FakeDaemon daemon([&](const ApiRequest& request) {
    return ApiResponse{
        200, request.path == "/v1/peers" ? api::to_json(peers).dump() : api::to_json(status).dump()};
  });
  Ran screen = run_p2pw({"status", "--state", daemon.state()});
  for (const char* row : {"critic         2", "critic         3", "policy      1002", "policy      1003"}) {
    EXPECT_NE(screen.out.find(row), std::string::npos) << row << "\n" << screen.out;
  }
  EXPECT_EQ(screen.out.find("1001"), std::string::npos) << "the newest two of each";
  EXPECT_NE(run_p2pw({"peers", "--state", daemon.state()}).out.find("critic policy"), std::string::npos);
  EXPECT_EQ(
      json_of(run_p2pw({"peers", "--state", daemon.state(), "--json"}))["peers"][0]["channels"][0]["channel"],
      "critic");
}

}  // namespace
}  // namespace p2pw
