// Every verb as a user meets it: the real program, its streams and exit codes.
#include "cli/verb.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "daemon/client/api.h"
#include "daemon/client/config.h"
#include "daemon/client/delegate.h"
#include "daemon/client/files.h"
#include "daemon/client/fleet_secrets.h"
#include "protocol/enrolment.h"
#include "tests/cli/fake_daemon.h"
#include "tests/cli/run_p2pw.h"

namespace p2pw {
namespace {

using testing::FakeDaemon;
using testing::P2pw;
using testing::Ran;
using testing::read_all;
using testing::run_p2pw;
using testing::TempDir;

Json json_of(const Ran& ran) {
  Json json = Json::parse(ran.out, nullptr, false);
  EXPECT_TRUE(json.is_object()) << "one JSON object on standard output, not: " << ran.out;
  return json;
}

unsigned mode_of(const std::filesystem::path& file) {
  struct stat info {};
  EXPECT_EQ(stat(file.c_str(), &info), 0) << file;
  return info.st_mode & 0777;
}

TEST(Verbs, HelpBeginsWithAnExample) {
  ASSERT_GE(all_verbs().size(), 15u);
  for (const Verb& verb : all_verbs()) {
    Ran ran = run_p2pw({std::string(verb.name), "--help"});
    EXPECT_EQ(ran.exit_code, 0) << verb.name;
    EXPECT_TRUE(ran.out.starts_with("Example:\n  p2pw " + std::string(verb.name))) << ran.out;
    for (const char* option : {"--json", "--quiet", "--config", "--state"}) {
      EXPECT_NE(ran.out.find(option), std::string::npos) << verb.name << " " << option;
    }
  }
}

TEST(Verbs, TheListNamesThemAll) {
  Ran ran = run_p2pw({"--help"});
  EXPECT_EQ(ran.exit_code, 0);
  for (const Verb& verb : all_verbs()) EXPECT_NE(ran.out.find("\n  " + std::string(verb.name) + " "), std::string::npos);
  EXPECT_EQ(run_p2pw({"--version"}).out, "p2pw " P2PW_VERSION "\n");
}

TEST(Verbs, WrongUseEndsWithTwo) {
  EXPECT_EQ(run_p2pw({}).exit_code, 2);
  for (const Verb& verb : all_verbs()) {
    Ran ran = run_p2pw({std::string(verb.name), "--no-such-option", "--json"});
    EXPECT_EQ(ran.exit_code, 2) << verb.name;
    EXPECT_EQ(json_of(ran)["error"]["code"], "usage");
    EXPECT_NE(ran.err.find("p2pw " + std::string(verb.name) + " --help"), std::string::npos) << ran.err;
  }
}

TEST(Verbs, AMistypedVerbIsGuessed) {
  Ran ran = run_p2pw({"--config", "x", "stauts"});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_NE(ran.err.find("did you mean \"status\"?"), std::string::npos) << ran.err;
  EXPECT_EQ(run_p2pw({"frobnicate"}).err.find("did you mean"), std::string::npos);
}

TEST(Verbs, WithoutADaemonTheyEndWithThree) {
  TempDir dir;
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"status"}, {"peers"}, {"log"}, {"token"}, {"wait", "--channel", "c", "--version", "1"},
           {"activate", "--channel", "c"}, {"release", "--channel", "c"}, {"rollback", "--local", "--channel", "c"}}) {
    auto with = words;
    with.insert(with.end(), {"--json", "--state", dir.path()});
    Ran ran = run_p2pw(with);
    EXPECT_EQ(ran.exit_code, 3) << words[0] << ran.err;
    EXPECT_EQ(json_of(ran)["error"]["exit"], 3);
    EXPECT_NE(ran.err.find((dir / "api.sock").string()), std::string::npos) << ran.err;
  }
}

TEST(Keygen, NeverOverwrites) {
  TempDir dir;
  Ran ran = run_p2pw({"keygen", "-o", dir / "publisher.key", "--json"});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(mode_of(dir / "publisher.key"), 0600u);
  auto key = SigningKey::parse(read_all(dir / "publisher.key"));
  ASSERT_TRUE(key.ok());
  EXPECT_EQ(json_of(ran)["publisher"], key->verifying_key().line());
  EXPECT_EQ(VerifyingKey::parse(read_all(dir / "publisher.pub")).value(), key->verifying_key());
  EXPECT_EQ(run_p2pw({"keygen", "-o", dir / "publisher.key"}).exit_code, 2);
  EXPECT_EQ(read_all(dir / "publisher.key"), key->file());
}

void write_key(const std::filesystem::path& file, const std::string& text) {
  ASSERT_TRUE(write_small_file(file, text, 0600).ok()) << file;
}

// A trainer that has been set up, and the token that `init` printed.
struct Trainer {
  TempDir dir;
  std::vector<std::string> with = {"--config", dir / "etc/p2pw.toml", "--state", dir / "state", "--json"};
  Ran ran = init({});

  Ran init(std::vector<std::string> more) {
    std::vector<std::string> words = {"init", "--channel", "policy", "--region", "us", "--address", "127.0.0.9"};
    words.insert(words.end(), more.begin(), more.end());
    words.insert(words.end(), with.begin(), with.end());
    return run_p2pw(words);
  }
  std::string token() { return json_of(ran)["token"]; }
  StatePaths paths() { return StatePaths(dir / "state"); }
};

TEST(Init, AKeyThatIsNoneIsNamedAndNothingIsLeftBehind) {
  TempDir dir;
  write_key(dir / "notes.txt", "no key\n");
  Ran ran = run_p2pw({"init", "--channel", "policy", "--region", "us", "--address", "127.0.0.9", "--publisher-key", dir / "notes.txt",
                      "--config", dir / "etc/p2pw.toml", "--state", dir / "state", "--json"});
  EXPECT_NE(ran.exit_code, 0);
  EXPECT_NE(ran.err.find((dir / "notes.txt").string()), std::string::npos) << ran.err;
  EXPECT_FALSE(std::filesystem::exists(dir / "etc/publisher.key"));
  EXPECT_FALSE(std::filesystem::exists(dir / "etc/p2pw.toml"));
}

TEST(Rotate, AKeyThatIsNoneIsNamedAndLeftAlone) {
  Trainer trainer;
  ASSERT_EQ(trainer.ran.exit_code, 0) << trainer.ran.err;
  const auto file = trainer.dir / "etc/publisher.key";
  write_key(file, "no key\n");
  std::vector<std::string> words = {"rotate", "publisher-key"};
  words.insert(words.end(), trainer.with.begin(), trainer.with.end());
  Ran ran = run_p2pw(words);
  EXPECT_NE(ran.exit_code, 0);
  EXPECT_NE(ran.err.find(file.string()), std::string::npos) << ran.err;
  EXPECT_EQ(read_all(file), "no key\n");
}

TEST(Init, MakesEverythingThatADaemonNeeds) {
  Trainer trainer;
  ASSERT_EQ(trainer.ran.exit_code, 0) << trainer.ran.err;
  auto config = load_config(trainer.dir / "etc/p2pw.toml");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->node.role, Role::trainer);
  EXPECT_EQ(config->state, trainer.dir / "state");
  auto publisher = SigningKey::parse(read_all(trainer.dir / "etc/publisher.key"));
  ASSERT_TRUE(publisher.ok());
  EXPECT_EQ(config->channels.at(0).publisher, publisher->verifying_key());
  for (auto file : {trainer.dir / "etc/publisher.key", trainer.paths().node_key(), trainer.paths().enrolments(),
                    trainer.paths().online_key(config->channels[0].name)}) {
    EXPECT_EQ(mode_of(file), 0600u) << file;
  }
  EXPECT_EQ(load_fleet_secrets(trainer.paths()).value().size(), 1u);
}

TEST(Init, StartIsForTheUsualPlaceAndWritesNothingElsewhere) {
  TempDir dir;
  std::vector<std::string> init = {"init", "-c", "policy", "-r", "us", "--address", "127.0.0.9"};
  for (auto words : {init, std::vector<std::string>{"join", JoinToken::parse(Trainer().token())->encode().value(), "-r", "us"}}) {
    words.insert(words.end(), {"--start", "--config", dir / "etc/p2pw.toml", "--state", dir / "state"});
    Ran ran = run_p2pw(words);
    EXPECT_EQ(ran.exit_code, 2) << words[0];
    EXPECT_NE(ran.err.find("p2pwd --config " + std::string(dir / "etc/p2pw.toml")), std::string::npos) << ran.err;
  }
  EXPECT_FALSE(std::filesystem::exists(dir / "etc"));
  EXPECT_FALSE(std::filesystem::exists(dir / "state"));
}

TEST(Init, TheTokenLeadsBack) {
  Trainer trainer;
  auto token = JoinToken::parse(trainer.token());
  ASSERT_TRUE(token.ok()) << token.error().message;
  EXPECT_EQ(token->bootstraps.at(0).endpoint.host, "127.0.0.9");
  EXPECT_EQ(token->bootstraps.at(0).node.hex(), json_of(trainer.ran)["node"]);
  EXPECT_EQ(token->channel.str(), "policy");
  auto open = Enrolments::parse(read_all(trainer.paths().enrolments()));
  ASSERT_TRUE(open.ok());
  auto now = std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
  EXPECT_EQ(open->check(token->enrolment, now), token->secret);
  EXPECT_FALSE(open->check(token->enrolment, now + std::chrono::hours(2)));
}

TEST(Init, TheDelegateIsThePublishers) {
  Trainer trainer;
  auto config = load_config(trainer.dir / "etc/p2pw.toml");
  ASSERT_TRUE(config.ok());
  const ChannelConfig& channel = config->channels.at(0);
  RecordVerifier verifier(channel.name, channel.publisher);
  std::string envelope = read_all(trainer.paths().delegate(channel.name));
  auto record = verifier.verify(as_bytes(envelope), WallTime{});
  ASSERT_TRUE(record.ok()) << record.error().message;
  auto online = SigningKey::parse(read_all(trainer.paths().online_key(channel.name)));
  ASSERT_TRUE(record->as<DelegateRecord>());
  EXPECT_EQ(record->as<DelegateRecord>()->key, online->verifying_key());
}

TEST(Init, ASecondTimeChangesNothingUnlessForced) {
  Trainer trainer;
  std::string key = read_all(trainer.dir / "etc/publisher.key"), config = read_all(trainer.dir / "etc/p2pw.toml");
  EXPECT_EQ(trainer.init({"--port", "5000"}).exit_code, 2);
  EXPECT_EQ(read_all(trainer.dir / "etc/p2pw.toml"), config);
  EXPECT_EQ(trainer.init({"--port", "5000", "--force"}).exit_code, 0);
  EXPECT_EQ(read_all(trainer.dir / "etc/publisher.key"), key);
  EXPECT_EQ(load_config(trainer.dir / "etc/p2pw.toml")->listen.port, 5000);
  EXPECT_EQ(load_fleet_secrets(trainer.paths()).value().size(), 1u);
}

TEST(Init, ABadValueLeavesNothing) {
  for (const char* option : {"--address=no address", "--port=4711", "--uses=0"}) {
    TempDir dir;
    Ran ran = run_p2pw({"init", "-c", "policy", "-r", "us", "--address", "127.0.0.9", option, "--config", dir / "c.toml",
                        "--state", dir / "state"});
    EXPECT_EQ(ran.exit_code, 2) << option << ran.err;
    EXPECT_TRUE(std::filesystem::is_empty(dir.path())) << option;
  }
}

TEST(Join, WritesWhatTheTokenSays) {
  Trainer trainer;
  TempDir dir;
  Ran ran = run_p2pw({"join", "-", "--region", "eu", "--address", "127.0.0.10", "--slots", "1", "--root", dir / "slots",
                      "--config", dir / "p2pw.toml", "--state", dir / "state", "--json"}, trainer.token() + "\n");
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  auto config = load_config(dir / "p2pw.toml");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->node.role, Role::node);
  EXPECT_EQ(config->node.region.str(), "eu");
  EXPECT_EQ(config->bootstrap.at(0).key->hex(), json_of(trainer.ran)["node"]);
  EXPECT_EQ(config->channels.at(0).publisher.line(), json_of(trainer.ran)["publisher"]);
  EXPECT_EQ(config->channels.at(0).slots, 1u);
  EXPECT_EQ(config->channel_root(config->channels[0].name), dir / "slots");
  EXPECT_EQ(read_all(StatePaths(dir / "state").enrolment_pending()), trainer.token() + "\n");
  EXPECT_EQ(mode_of(StatePaths(dir / "state").enrolment_pending()), 0600u);
}

TEST(Join, ABadTokenLeavesNothing) {
  Trainer trainer;
  std::string cut = trainer.token();
  cut.pop_back();
  for (const std::string& bad : {std::string("nonsense"), cut, std::string("p2pw1")}) {
    TempDir dir;
    Ran ran = run_p2pw({"join", bad, "--region", "eu", "--config", dir / "p2pw.toml", "--state", dir / "state", "--json"});
    EXPECT_EQ(ran.exit_code, 2) << ran.err;
    EXPECT_EQ(json_of(ran)["error"]["code"], "usage");
    EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  }
}

ApiResponse reply(const Json& object) { return {200, object.dump()}; }

TEST(StatusVerb, ShowsOneScreenOrJson) {
  api::StatusReply status;
  status.name = "trainer";
  api::ChannelStatus& channel = status.channels.emplace_back();
  channel.channel = "policy";
  channel.problem = "disk full";
  api::NodeStatus& node = status.nodes.emplace_back();
  node.name = "gpu-1";
  node.state = "staged";
  node.lag_seconds = 2;
  FakeDaemon daemon([&](const ApiRequest&) { return reply(api::to_json(status)); });
  Ran text = run_p2pw({"status", "--state", daemon.state()});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  for (const char* word : {"trainer", "policy", "gpu-1", "staged", "2.0 s", "disk full"}) {
    EXPECT_NE(text.out.find(word), std::string::npos) << word << "\n" << text.out;
  }
  EXPECT_EQ(json_of(run_p2pw({"status", "--json", "--state", daemon.state()})), api::to_json(status));

  api::Staleness& behind = status.staleness.emplace_back();
  behind.channel = "policy";
  behind.nodes = behind.current = 1;
  EXPECT_NE(run_p2pw({"status", "--state", daemon.state()}).out.find("policy: nothing is published yet; on the trainer: p2pw seed"),
            std::string::npos);
  status.channels[0].version_sealed = 3;
  EXPECT_NE(run_p2pw({"status", "--state", daemon.state()}).out.find("policy: 1 of 1 nodes serve the newest version"), std::string::npos);
}

TEST(TokenVerb, PrintsTheTokenAlone) {
  FakeDaemon daemon([&](const ApiRequest& request) {
    EXPECT_EQ(Json::parse(request.body)["uses"], 3);
    return reply(api::to_json(api::TokenReply{"p2pw1xyz", 1}));
  });
  Ran ran = run_p2pw({"token", "--uses", "3", "--state", daemon.state()});
  EXPECT_EQ(ran.out, "p2pw1xyz\n");
  EXPECT_NE(ran.err.find("3 nodes"), std::string::npos);
  EXPECT_EQ(run_p2pw({"token", "--uses", "3", "-q", "--state", daemon.state()}).err, "");
}

TEST(WaitVerb, EndsWhenTheShareIsReached) {
  FakeDaemon daemon([&](const ApiRequest& request) {
    EXPECT_EQ(request.query.at("percent"), "95");
    return reply(api::to_json(api::WaitReply{"policy", 7, 6, 6, true}));
  });
  Ran ran = run_p2pw({"wait", "--channel", "policy", "--version", "7", "--active", "95%", "--json", "--state", daemon.state()});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(json_of(ran)["active"], 6);
  EXPECT_EQ(json_of(ran)["total"], 6);
}

TEST(WaitVerb, TimesOutWithTheNumbersSoFar) {
  FakeDaemon daemon([&](const ApiRequest&) { return reply(api::to_json(api::WaitReply{"policy", 7, 4, 6, false})); });
  Ran ran = run_p2pw({"wait", "-c", "policy", "-v", "7", "--timeout", "0", "--json", "--state", daemon.state()});
  EXPECT_EQ(ran.exit_code, 6);
  Json json = json_of(ran);
  EXPECT_EQ(json["active"], 4);
  EXPECT_EQ(json["total"], 6);
  EXPECT_EQ(json["error"]["code"], "timed_out");
}

TEST(WaitVerb, TakesTheNewestSealedVersion) {
  FakeDaemon daemon([&](const ApiRequest& request) {
    if (request.path != "/v1/status") {
      EXPECT_EQ(request.query.at("version"), "9");
      return reply(api::to_json(api::WaitReply{"policy", 9, 1, 1, true}));
    }
    api::StatusReply status;
    api::ChannelStatus& channel = status.channels.emplace_back();
    channel.channel = "policy";
    channel.version_sealed = 9;
    return reply(api::to_json(status));
  });
  EXPECT_EQ(run_p2pw({"wait", "-c", "policy", "--state", daemon.state()}).exit_code, 0);
  EXPECT_EQ(run_p2pw({"wait", "-c", "other", "--state", daemon.state()}).exit_code, 5);
  EXPECT_EQ(run_p2pw({"wait", "-c", "policy", "--active", "0%", "--state", daemon.state()}).exit_code, 2);
}

TEST(WaitVerb, ControlCEndsItWith130) {
  FakeDaemon daemon([](const ApiRequest&) { return ApiResponse{}; });
  daemon.hang();
  P2pw waiting({"wait", "-c", "policy", "-v", "7", "--json", "--state", daemon.state()});
  daemon.wait_for_requests(1);
  waiting.signal(SIGINT);
  Ran ran = waiting.wait();
  EXPECT_EQ(ran.exit_code, 130);
  EXPECT_EQ(json_of(ran)["error"]["code"], "interrupted");
}

TEST(LogVerb, OneLineAnEvent) {
  api::LogReply log;
  log.entries.push_back({1, 1'700'000'000'123, "policy", "seal", 3, "", "all bundles"});
  log.entries.push_back({2, 0, "policy", "staged", 0, "", ""});
  log.next = 2;
  std::map<std::string, std::string> asked;
  FakeDaemon daemon([&](const ApiRequest& request) {
    asked = request.query;
    return reply(api::to_json(log));
  });
  run_p2pw({"log", "-n", "7", "--after", "3", "--state", daemon.state()});
  EXPECT_EQ(asked["after"], "3");
  EXPECT_FALSE(asked.contains("newest"));
  Ran text = run_p2pw({"log", "--state", daemon.state()});
  EXPECT_TRUE(text.out.starts_with("1  2023-11-14T22:13:20.123Z  policy  v3  seal  all bundles\n2  ")) << text.out;
  Ran lines = run_p2pw({"log", "--json", "--state", daemon.state()});
  EXPECT_EQ(Json::parse(lines.out.substr(0, lines.out.find('\n')))["event"], "seal");
  EXPECT_EQ(asked["newest"], "100") << "the oldest are of no use at night";
}

TEST(ActionVerbs, PassTheDaemonsRefusalOn) {
  FakeDaemon daemon([](const ApiRequest&) {
    return ApiResponse{409, api::to_json(fail(ErrorCode::busy, "an activation is under way")).dump()};
  });
  Ran ran = run_p2pw({"activate", "-c", "policy", "--json", "--state", daemon.state()});
  EXPECT_EQ(ran.exit_code, 7);
  EXPECT_EQ(json_of(ran)["error"]["message"], "an activation is under way");
  EXPECT_EQ(run_p2pw({"rollback", "-c", "policy", "--state", daemon.state()}).exit_code, 2) << "only --local is one node's";
}

TEST(SeedVerb, RefusesBeforeItAsksTheDaemon) {
  Trainer trainer;
  auto seed = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"seed"};
    words.insert(words.end(), more.begin(), more.end());
    words.insert(words.end(), trainer.with.begin(), trainer.with.end());
    return run_p2pw(words);
  };
  EXPECT_EQ(seed({trainer.dir / "none"}).exit_code, 5);
  EXPECT_EQ(seed({trainer.dir / "etc", "--wait-active", "0"}).exit_code, 2);
  EXPECT_EQ(seed({trainer.dir / "etc", "--channel", "Bad Name"}).exit_code, 2);
  Ran other = run_p2pw({"keygen", "-o", trainer.dir / "other.key"});
  Ran wrong_key = seed({trainer.dir / "etc", "--key", trainer.dir / "other.key"});
  EXPECT_EQ(wrong_key.exit_code, 4);
  EXPECT_NE(wrong_key.err.find("is not the publisher key of channel policy"), std::string::npos) << wrong_key.err;
  chmod((trainer.dir / "etc/publisher.key").c_str(), 0644);
  EXPECT_EQ(seed({trainer.dir / "etc"}).exit_code, 4) << "a key that others may read";
}

TEST(ConfigVerb, PrintsEffectiveValues) {
  Trainer trainer;
  Ran ran = run_p2pw({"config", "--config", trainer.dir / "etc/p2pw.toml"});
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_NE(ran.out.find("stripes = 4"), std::string::npos);
  EXPECT_EQ(run_p2pw({"config", "--config", trainer.dir / "none.toml"}).exit_code, 5);
}

TEST(Completion, KnowsEveryVerb) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    Ran ran = run_p2pw({"completion", shell});
    EXPECT_EQ(ran.exit_code, 0);
    for (const Verb& verb : all_verbs()) EXPECT_NE(ran.out.find(verb.name), std::string::npos) << shell << " " << verb.name;
    EXPECT_NE(ran.out.find("wait-active"), std::string::npos) << shell;
  }
  TempDir dir;
  std::string script = dir / "c.bash";
  ASSERT_EQ(std::system((std::string(P2PW_BIN_DIR) + "/p2pw completion bash > " + script).c_str()), 0);
  std::string check = "bash -c 'source " + script + "; COMP_WORDS=(p2pw see); COMP_CWORD=1; _p2pw; [[ ${COMPREPLY[*]} == seed ]]; "
                      "a=$?; COMP_WORDS=(p2pw --config x wait --act); COMP_CWORD=4; _p2pw; [[ $a == 0 && ${COMPREPLY[*]} == --active ]]'";
  EXPECT_EQ(std::system(check.c_str()), 0);
}

}  // namespace
}  // namespace p2pw
