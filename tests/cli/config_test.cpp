#include "daemon/client/config.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "daemon/client/fleet_secrets.h"
#include "daemon/client/files.h"
#include "tests/support/temp_dir.h"

namespace p2pw {
namespace {

using testing::TempDir;

std::string publisher_line() { return SigningKey::generate().verifying_key().line(); }

const std::string kNodeKey(64, 'a');

std::string minimal() {
  return "[node]\nregion = \"eu\"\n[[bootstrap]]\naddress = \"10.0.0.1\"\n";
}

Error error_of(const std::string& text) {
  auto config = parse_config(text, "/etc/x.toml");
  EXPECT_FALSE(config.ok()) << text;
  return config.ok() ? Error{} : config.error();
}

TEST(Config, DefaultsAreFilledIn) {
  auto config = parse_config(minimal(), "/etc/p2pw/p2pw.toml");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->node.region.str(), "eu");
  EXPECT_FALSE(config->node.name.empty());
  EXPECT_EQ(config->node.role, Role::node);
  EXPECT_EQ(config->state, "/var/lib/p2pw");
  EXPECT_EQ(config->listen.port, kDefaultLinkPort);
  EXPECT_EQ(config->links.stripes, 4u);
  EXPECT_EQ(config->placement.candidates, 4u);
  EXPECT_EQ(config->api_socket(), "/var/lib/p2pw/api.sock");
  EXPECT_EQ(config->bootstrap.at(0).port, kDefaultLinkPort);
  EXPECT_FALSE(config->bootstrap.at(0).key);
}

TEST(Config, EveryKeyIsReadAndWrittenAgain) {
  std::string text =
      "state = \"st\"\nthreads = 3\n"
      "mirror = \"s3://weights/fleet-1?endpoint=http://10.0.0.9:9000\"\nmirror_write = false\nmirror_credentials = \"aws\"\n"
      "[node]\nname = \"gpu \\\"7\\\"\"\nregion = \"eu\"\nrole = \"trainer\"\nbootstrap = true\n"
      "[listen]\naddress = \"0.0.0.0\"\nport = 5000\nswarm_port = 0\nadvertise = \"t.example\"\n"
      "[[bootstrap]]\naddress = \"t2.example\"\nport = 5001\nkey = \"" + kNodeKey + "\"\nregion = \"us\"\ntrainer = true\n"
      "[channels.\"policy.v2\"]\npublisher = \"" + publisher_line() + "\"\nslots = 1\ngrace_seconds = 5\nroot = \"/mnt/x\"\n"
      "activate = \"region 80%\"\nactivate_interval_seconds = 90\n"
      "[links]\nstripes = 8\ncongestion = \"bbr\"\nwan_rate_limit_mbit = 200\n"
      "[tree]\nroot_children = 2\nfan_out = 3\n[placement]\ncandidates = 2\n"
      "[[allow]]\nkey = \"" + kNodeKey + "\"\nregion = \"us\"\nbootstrap = true\n"
      "[api]\nsocket = \"a.sock\"\nhttp = \"127.0.0.1:4712\"\ntoken = \"0123456789abcdef\"\n"
      "[log]\nlevel = \"debug\"\njson = true\n";
  auto config = parse_config(text, "/srv/p2pw.toml");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->state, "/srv/st") << "relative to the file";
  EXPECT_EQ(config->api_socket(), "/srv/a.sock");
  EXPECT_EQ(config->node.name, "gpu \"7\"");
  EXPECT_EQ(config->api.http_port, 4712);
  EXPECT_EQ(config->channels.at(0).grace.count(), 5);
  EXPECT_EQ(config->channels.at(0).activate.percent, 80u);
  EXPECT_FALSE(config->channels.at(0).activate.fleet);
  EXPECT_EQ(config->channels.at(0).activate.interval.count(), 90);
  EXPECT_EQ(config->tree.fan_out, 3u);
  EXPECT_EQ(config->allow.at(0).region.str(), "us");
  EXPECT_EQ(config->mirror.base, "http://10.0.0.9:9000/weights/fleet-1");
  EXPECT_FALSE(config->mirror_write);
  EXPECT_EQ(config->mirror_credentials_file(), "/srv/aws");
  for (bool all : {true, false}) {
    std::string written = all ? to_toml(*config) : to_short_toml(*config);
    auto again = parse_config(written, "/srv/p2pw.toml");
    ASSERT_TRUE(again.ok()) << again.error().message << "\n" << written;
    EXPECT_EQ(to_toml(*again), to_toml(*config));
  }
}

TEST(Config, WhenAVersionIsActivated) {
  auto policy = [](const std::string& text) {
    auto config = parse_config(minimal() + "[channels.c]\npublisher = \"" + publisher_line() + "\"\nactivate = \"" + text + "\"\n", "/x");
    return config.ok() ? text_of(config->channels.at(0).activate) : "wrong: " + config.error().message;
  };
  for (const char* right : {"auto", "asked", "region 1%", "region 80%", "fleet 100%"}) EXPECT_EQ(policy(right), right);
  for (const char* wrong : {"", "fleet", "fleet 0%", "fleet 101%", "fleet 95", "region 5%x", "planet 5%", "region -5%"}) {
    EXPECT_NE(policy(wrong).find("channels.c.activate: must be"), std::string::npos) << policy(wrong);
  }
}

TEST(Config, ErrorsNameFileLineKeyAndReason) {
  Error error = error_of("[node]\nregion = \"eu\"\n[links]\nstripes = 0\n");
  EXPECT_EQ(error.code, ErrorCode::config);
  EXPECT_EQ(error.message, "/etc/x.toml:4: links.stripes: must be a whole number from 1 to 64");
}

TEST(Config, AMirrorHoldsNoPassword) {
  Error error = error_of("mirror = \"https://me:secret@weights.example\"\n[node]\nregion = \"eu\"\n");
  EXPECT_EQ(error.code, ErrorCode::config);
  EXPECT_NE(error.message.find("/etc/x.toml:1: mirror: "), std::string::npos) << error.message;
  EXPECT_NE(error.message.find("mirror_credentials"), std::string::npos) << error.message;
  EXPECT_EQ(error.message.find("secret"), std::string::npos) << error.message;
}

TEST(Config, UnknownKeysAreErrors) {
  EXPECT_NE(error_of(minimal() + "[links]\nstrips = 4\n").message.find("links.strips: is no key"), std::string::npos);
  EXPECT_NE(error_of("colour = 1\n" + minimal()).message.find("/etc/x.toml:1: colour: is no key"), std::string::npos);
  EXPECT_NE(error_of(minimal() + "extra = 1\n").message.find("bootstrap[0].extra"), std::string::npos);
}

struct Bad {
  const char* text;
  const char* part;  // of the message
};

class ConfigRefuses : public ::testing::TestWithParam<Bad> {};

TEST_P(ConfigRefuses, WithAReason) {
  Error error = error_of(GetParam().text);
  EXPECT_EQ(error.code, ErrorCode::config);
  EXPECT_NE(error.message.find(GetParam().part), std::string::npos) << error.message;
}

constexpr const char* kHead = "[node]\nregion = \"eu\"\nbootstrap = false\n";
const std::string kOk = std::string(kHead) + "[[bootstrap]]\naddress = \"10.0.0.1\"\n";

INSTANTIATE_TEST_SUITE_P(
    Values, ConfigRefuses,
    ::testing::Values(
        Bad{"", "node: is missing"}, Bad{"[nodee]\nregion = \"eu\"\n", "nodee: is no key that p2pwd knows"},
        Bad{"[node]\nregoin = \"eu\"\n", "node.regoin: is no key that p2pwd knows"},
        Bad{"[node]\n", "node.region: is missing"}, Bad{"= 1", "is not TOML"},
        Bad{"[node]\nregion = \"EU\"\n", "is not a name"}, Bad{"[node]\nregion = 7\n", "must be a text"},
        Bad{"node = 1\n", "must be a table"}, Bad{"[node]\nregion=\"eu\"\nrole=\"boss\"\n", "must be \"node\" or \"trainer\""},
        Bad{"[node]\nregion = \"eu\"\n", "names nobody to ask"},
        Bad{"[node]\nregion=\"eu\"\n[listen]\naddress=\"host\"\n", "must be an IP address"},
        Bad{"[node]\nregion=\"eu\"\n[listen]\nport=70000\n", "from 0 to 65535"},
        Bad{"[node]\nregion=\"eu\"\n[listen]\nport=-1\n", "from 0 to 65535"},
        Bad{"[node]\nregion=\"eu\"\n[listen]\nport=1.5\n", "from 0 to 65535"},
        Bad{"[node]\nregion=\"eu\"\n[listen]\nport=9\nswarm_port=9\n", "must differ"},
        Bad{"[node]\nregion=\"eu\"\nrole=\"trainer\"\n[listen]\naddress=\"0.0.0.0\"\n", "listen.advertise: is needed"},
        Bad{"[node]\nregion=\"eu\"\n[[bootstrap]]\nport=1\n", "bootstrap[0].address: is missing"},
        Bad{"[node]\nregion=\"eu\"\n[[bootstrap]]\naddress=\"a b\"\n", "must be an address or host name"},
        Bad{"[node]\nregion=\"eu\"\n[[bootstrap]]\naddress=\"h\"\nkey=\"12\"\n", "64 hex digits"},
        Bad{"bootstrap = 3\n[node]\nregion=\"eu\"\n", "must be a list of tables"},
        Bad{"[node]\nregion=\"eu\"\n[channels.a]\n", "channels.a.publisher: is missing"},
        Bad{"[node]\nregion=\"eu\"\n[channels.a]\npublisher=\"x\"\n", "channels.a.publisher"},
        Bad{"[node]\nregion=\"eu\"\n[channels]\na = 1\n", "channels.a: must be a table"},
        Bad{"[node]\nregion=\"eu\"\n[links]\ncongestion=\"; rm\"\n", "links.congestion"},
        Bad{"[node]\nregion=\"eu\"\n[api]\nhttp=\"0.0.0.0:80\"\n", "must be a loopback address"},
        Bad{"[node]\nregion=\"eu\"\n[api]\nhttp=\"127.0.0.1:80\"\n", "api.token: is needed"},
        Bad{"[node]\nregion=\"eu\"\n[log]\nlevel=\"loud\"\n", "log.level"}));

TEST(Config, ChannelNamesAreChecked) {
  std::string text = minimal() + "[channels.\"../x\"]\npublisher = \"" + publisher_line() + "\"\n";
  EXPECT_NE(error_of(text).message.find("is not a name"), std::string::npos);
}

TEST(Config, AllowedKeysAreUnique) {
  std::string entry = "[[allow]]\nkey = \"" + kNodeKey + "\"\n";
  EXPECT_NE(error_of(minimal() + entry + entry).message.find("twice"), std::string::npos);
}

TEST(Config, SocketPathsMustFit) {
  Error error = error_of("state = \"/" + std::string(120, 'x') + "\"\n" + minimal());
  EXPECT_NE(error.message.find("107 characters"), std::string::npos) << error.message;
}

TEST(Config, SizeIsBounded) { EXPECT_NE(error_of(std::string(2u << 20, '#')).message.find("1 MiB"), std::string::npos); }

TEST(Config, SavedOnceUnlessForced) {
  TempDir dir;
  auto config = parse_config(minimal(), (dir / "sub/p2pw.toml").string());
  ASSERT_TRUE(config.ok());
  ASSERT_TRUE(save_config(*config, config->file).ok());
  struct stat info {};
  ASSERT_EQ(stat(config->file.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
  EXPECT_EQ(to_toml(*load_config(config->file)), to_toml(*config));
  EXPECT_EQ(save_config(*config, config->file).error().code, ErrorCode::usage);
  EXPECT_TRUE(save_config(*config, config->file, true).ok());
  EXPECT_EQ(load_config(dir / "none.toml").error().code, ErrorCode::not_found);
}

TEST(Files, SecretsThatOthersReadAreRefused) {
  TempDir dir;
  ASSERT_TRUE(write_small_file(dir / "a/b/key", "secret", 0600).ok());
  EXPECT_EQ(read_secret_file(dir / "a/b/key", 100).value(), "secret");
  EXPECT_EQ(read_secret_file(dir / "a/b/key", 3).error().code, ErrorCode::limit);
  chmod((dir / "a/b/key").c_str(), 0640);
  Error error = read_secret_file(dir / "a/b/key", 100).error();
  EXPECT_EQ(error.code, ErrorCode::untrusted);
  EXPECT_NE(error.message.find("chmod 600"), std::string::npos);
}

TEST(Files, AFailedWriteLeavesNothing) {
  TempDir dir;
  std::filesystem::create_directory(dir / "target");
  EXPECT_FALSE(write_small_file(dir / "target", "x", 0600).ok());  // a folder is in the way
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 1);
}

TEST(FleetSecrets, NewestFirstAndOnce) {
  TempDir dir;
  StatePaths paths(dir.path());
  EXPECT_TRUE(load_fleet_secrets(paths).value().empty());
  FleetSecret first = FleetSecret::generate(), second = FleetSecret::generate();
  for (const FleetSecret* secret : {&first, &second, &first}) ASSERT_TRUE(add_fleet_secret(paths, *secret).ok());
  auto held = load_fleet_secrets(paths);
  ASSERT_TRUE(held.ok()) << held.error().message;
  ASSERT_EQ(held->size(), 2u);
  EXPECT_EQ(held->at(0).id(), second.id());
  EXPECT_EQ(held->at(1).id(), first.id());
  std::ofstream(paths.fleet() / "0003.secret") << "nonsense";
  chmod((paths.fleet() / "0003.secret").c_str(), 0600);
  EXPECT_FALSE(load_fleet_secrets(paths).ok());
}

TEST(Config, AHookIsReadAndWrittenAgain) {
  std::string node = minimal() + "[channels.policy]\npublisher = \"" + publisher_line() + "\"\n[channels.policy.hook]\n";
  for (const std::string& text : {
           std::string("kind = \"sglang\"\nurl = \"http://127.0.0.1:30000\"\ntoken = \"abc\"\npause = \"in_place\"\nflush = false\n"
                       "verify = false\nload_seconds = 20\ncontrol_seconds = 3\nretries = 0\nretry_seconds = 1\nwatch_seconds = 0\n"),
           std::string("kind = \"vllm\"\nurl = \"http://10.0.0.9:8000/x\"\nremote = true\npass_path = false\n"),
           std::string("kind = \"exec\"\ncommand = [\"/usr/bin/env\", \"a \\\"b\\\"\"]\n"),
           std::string("kind = \"socket\"\nsocket = \"/run/engine.sock\"\n")}) {
    auto config = parse_config(node + text, "/etc/x.toml");
    ASSERT_TRUE(config.ok()) << config.error().message;
    ASSERT_TRUE(config->channels.at(0).hook);
    for (const std::string& written : {to_toml(*config), to_short_toml(*config)}) {
      auto again = parse_config(written, "/etc/x.toml");
      ASSERT_TRUE(again.ok()) << again.error().message << written;
      EXPECT_EQ(again->channels.at(0).hook, config->channels.at(0).hook) << written;
    }
  }
  auto wrong = [&](const std::string& text, const std::string& part) {
    EXPECT_NE(error_of(node + text).message.find(part), std::string::npos) << text << error_of(node + text).message;
  };
  wrong("url = \"http://127.0.0.1:1\"\n", "kind");
  wrong("kind = \"tensorrt\"\n", "must be sglang");
  wrong("kind = \"sglang\"\nurl = \"http://10.0.0.9:1\"\n", "another machine");
  wrong("kind = \"sglang\"\nurl = \"https://127.0.0.1:1\"\n", "must be like");
  wrong("kind = \"sglang\"\nurl = \"http://127.0.0.1:1\"\npause = \"wait\"\n", "for SGLang");
  wrong("kind = \"sglang\"\nurl = \"http://127.0.0.1:1\"\npause = \"in_place\"\n", "flush");
  wrong("kind = \"exec\"\ncommand = [\"reload\"]\n", "absolute path");
  wrong("kind = \"exec\"\ncommand = \"/bin/reload\"\n", "must be a list");
  wrong("kind = \"socket\"\n", "must be the path");
}

}  // namespace
}  // namespace p2pw
