#include "cli/doctor_checks.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/setup.h"
#include "daemon/client/delegate.h"
#include "daemon/client/fleet_secrets.h"
#include "daemon/client/files.h"
#include "tests/cli/run_p2pw.h"

namespace p2pw::doctor {
namespace {

using testing::TempDir;

WallTime now() { return std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now()); }

const Finding& find(const Findings& findings, const std::string& what) {
  auto it = std::find_if(findings.begin(), findings.end(), [&](const Finding& f) { return f.what.starts_with(what); });
  static const Finding none{"none", Verdict::good, "not found", ""};
  EXPECT_NE(it, findings.end()) << what;
  return it == findings.end() ? none : *it;
}

void expect(const Findings& findings, const std::string& what, Verdict verdict) {
  const Finding& finding = find(findings, what);
  EXPECT_EQ(finding.verdict, verdict) << what << ": " << finding.detail;
  EXPECT_EQ(finding.remedy.empty(), verdict == Verdict::good) << what << ": every problem has a remedy";
}

// A trainer's folder as `init` leaves it.
struct Trainer {
  TempDir dir;
  Config config;
  SigningKey publisher = SigningKey::generate();

  Trainer() {
    config.state = dir / "state";
    config.node.role = Role::trainer;
    config.node.region = Region::parse("us").value();
    ChannelConfig channel;
    channel.name = Channel::parse("policy").value();
    channel.publisher = publisher.verifying_key();
    config.channels.push_back(channel);
    EXPECT_TRUE(setup::load_or_make_key(config.paths().node_key()).ok());
    EXPECT_TRUE(add_fleet_secret(config.paths(), FleetSecret::generate()).ok());
    EXPECT_TRUE(renew_delegate(config.paths(), channel.name, publisher, now()).ok());
  }
};

TEST(Doctor, AHealthyTrainerHasNoFindings) {
  Trainer trainer;
  Findings findings;
  check_keys(trainer.config, now(), findings);
  check_state_folder(trainer.config, findings);
  for (const Finding& f : findings) EXPECT_NE(f.verdict, Verdict::bad) << f.what << ": " << f.detail;
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(trainer.config.state), {}), 3) << "nothing is left behind";
}

TEST(Doctor, KeysThatAreMissingOrOpenAreFound) {
  Trainer trainer;
  chmod(trainer.config.paths().node_key().c_str(), 0644);
  std::filesystem::remove(trainer.config.paths().online_key(trainer.config.channels[0].name));
  std::filesystem::remove_all(trainer.config.paths().fleet());
  Findings findings;
  check_keys(trainer.config, now(), findings);
  expect(findings, "node key", Verdict::bad);
  EXPECT_NE(find(findings, "node key").remedy.find("chmod 600"), std::string::npos);
  expect(findings, "online key", Verdict::bad);
  expect(findings, "fleet secret", Verdict::bad);
}

TEST(Doctor, ADelegateIsWatched) {
  Trainer trainer;
  for (auto [days, verdict] : {std::pair{0, Verdict::good}, {25, Verdict::warning}, {31, Verdict::bad}}) {
    Findings findings;
    check_keys(trainer.config, now() + std::chrono::hours(24 * days), findings);
    expect(findings, "delegate", verdict);
  }
  trainer.config.channels[0].publisher = SigningKey::generate().verifying_key();
  Findings findings;
  check_keys(trainer.config, now(), findings);
  expect(findings, "delegate", Verdict::bad);
}

TEST(Doctor, WhatAUserMayNotSeeIsNoFault) {
  Findings findings = {{"node key", Verdict::bad, "cannot read /x: Permission denied", "chmod"},
                       {"link port", Verdict::bad, "10.0.0.1:4710: Address already in use", "another"}};
  excuse_user(findings);
  EXPECT_EQ(findings[0].verdict, Verdict::warning);
  EXPECT_NE(findings[0].remedy.find("sudo p2pw doctor"), std::string::npos);
  EXPECT_EQ(findings[1].verdict, Verdict::bad);
}

TEST(Doctor, AStateFolderThatIsAFileIsFound) {
  TempDir dir;
  ASSERT_TRUE(write_small_file(dir / "state", "x", 0600).ok());
  Config config;
  config.state = dir / "state";
  Findings findings;
  check_state_folder(config, findings);
  expect(findings, "state folder", Verdict::bad);
}

// A socket on a free loopback port.
struct Listener {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  std::uint16_t port = 0;
  explicit Listener(bool listening) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    socklen_t length = sizeof address;
    getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
    port = ntohs(address.sin_port);
    if (listening) {
      EXPECT_EQ(listen(fd, 1), 0);
    }
  }
  ~Listener() { close(fd); }
};

TEST(Doctor, PortsInUseAndForeignAddressesAreFound) {
  Listener used(true);
  Config config;
  config.listen.address = "127.0.0.1";
  config.listen.port = used.port;
  config.listen.swarm_port = 0;
  Findings findings;
  check_ports(config, false, findings);
  expect(findings, "link port", Verdict::bad);
  expect(findings, "swarm port", Verdict::good);
  config.listen.address = "203.0.113.77";  // nobody's: for documentation
  findings.clear();
  check_ports(config, false, findings);
  expect(findings, "link port", Verdict::bad);
  findings.clear();
  check_ports(config, true, findings);
  EXPECT_TRUE(findings.empty()) << "a running daemon has its ports";
}

TEST(Doctor, BootstrapDaemonsAreTried) {
  Listener there(true), closed(false);
  Config config;
  config.listen.address = "127.0.0.1";
  config.bootstrap.resize(3);
  config.bootstrap[0].address = config.bootstrap[1].address = "127.0.0.1";
  config.bootstrap[0].port = there.port;
  config.bootstrap[1].port = closed.port;
  config.bootstrap[2].address = "no-such-host.invalid";
  Findings findings;
  check_bootstrap(config, {}, findings);
  ASSERT_EQ(findings.size(), 3u);
  EXPECT_EQ(findings[0].verdict, Verdict::good) << findings[0].detail;
  EXPECT_EQ(findings[1].verdict, Verdict::bad);
  EXPECT_EQ(findings[2].verdict, Verdict::bad);
}

TEST(Doctor, ClocksAreCompared) {
  api::StatusReply status;
  for (double skew : {5.0, -4000.0, 600'000.0}) status.links.emplace_back().clock_offset_ms = skew;
  Findings findings;
  check_clocks(status, findings);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].verdict, Verdict::warning);
  EXPECT_EQ(findings[1].verdict, Verdict::bad);
  status.links.resize(1);
  findings.clear();
  check_clocks(status, findings);
  expect(findings, "clocks", Verdict::good);
}

TEST(Doctor, BuffersAreComparedWithRateTimesDelay) {
  api::StatusReply status;
  api::LinkStatus& link = status.links.emplace_back();
  link.rate_bits = 1'000'000'000;
  link.round_trip_ms = 145;
  link.stripes = 4;  // 18 MB on the way, 4.5 MB a connection, twice that wanted
  Findings findings;
  check_buffers(status, 10'000'000, 10'000'000, findings);
  expect(findings, "socket buffers", Verdict::good);
  findings.clear();
  check_buffers(status, 10'000'000, 4'194'304, findings);
  expect(findings, "socket buffers", Verdict::warning);
}

// An engine that answers every request with one status line.
class Engine {
 public:
  explicit Engine(std::string status) : thread_([this, status] {
      for (int peer; (peer = accept(listener_.fd, nullptr, nullptr)) >= 0; close(peer)) {
        char request[2048];
        ssize_t got = recv(peer, request, sizeof request, 0);
        if (got > 0) heard_.assign(request, static_cast<std::size_t>(got));
        std::string answer = "HTTP/1.1 " + status + "\r\nContent-Length: 0\r\n\r\n";
        EXPECT_EQ(send(peer, answer.data(), answer.size(), MSG_NOSIGNAL), static_cast<ssize_t>(answer.size()));
      }
    }) {}
  ~Engine() { stop(); }
  std::string stop() {
    shutdown(listener_.fd, SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
    return heard_;
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(listener_.port); }

 private:
  Listener listener_{true};
  std::string heard_;
  std::thread thread_;
};

Finding hook_finding(const HookConfig& hook) {
  Config config;
  ChannelConfig& channel = config.channels.emplace_back();
  channel.name = Channel::parse("policy").value();
  channel.hook = hook;
  Findings findings;
  check_hooks(config, {}, findings);
  EXPECT_EQ(findings.size(), hook ? 1u : 0u);
  if (findings.empty()) return {};
  EXPECT_EQ(findings[0].remedy.empty(), findings[0].verdict == Verdict::good) << findings[0].detail;
  EXPECT_EQ(findings[0].remedy.find("NAME"), std::string::npos) << findings[0].remedy;
  return findings[0];
}

TEST(Doctor, EnginesAreAskedWhatALoadAsksFirst) {
  HookConfig hook;
  hook_finding(hook);
  hook.token = "secret";
  struct Case {
    HookKind kind;
    const char* status;
    Verdict verdict;
    const char* remedy;
  };
  for (const Case& c : {Case{HookKind::sglang, "200 OK", Verdict::good, ""}, {HookKind::vllm, "200 OK", Verdict::good, ""},
                        {HookKind::vllm, "404 Not Found", Verdict::bad, "VLLM_SERVER_DEV_MODE=1"},
                        {HookKind::sglang, "404 Not Found", Verdict::bad, "orrect url in [channels.policy.hook]"},
                        {HookKind::sglang, "401 Unauthorized", Verdict::bad, "token in [channels.policy.hook]"}}) {
    Engine engine(c.status);
    hook.kind = c.kind;
    hook.url = engine.url();
    Finding finding = hook_finding(hook);
    EXPECT_EQ(finding.verdict, c.verdict) << finding.detail;
    EXPECT_NE(finding.remedy.find(c.remedy), std::string::npos) << finding.remedy;
    std::string heard = engine.stop();
    EXPECT_TRUE(heard.starts_with(c.kind == HookKind::sglang ? "GET /get_model_info " : "GET /is_paused ")) << heard;
    EXPECT_NE(heard.find("Authorization: Bearer secret\r\n"), std::string::npos) << heard;
  }
  Listener closed(false);
  for (HookKind kind : {HookKind::sglang, HookKind::webhook}) {
    hook.kind = kind;
    hook.url = "http://127.0.0.1:" + std::to_string(closed.port);
    EXPECT_EQ(hook_finding(hook).verdict, Verdict::bad);
  }
}

TEST(Doctor, AnEnginesSocketAndProgramAreLookedAt) {
  TempDir dir;
  HookConfig hook;
  hook.kind = HookKind::socket;
  hook.socket = dir / "engine.sock";
  EXPECT_EQ(hook_finding(hook).verdict, Verdict::bad) << "nobody is there";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, hook.socket.c_str(), sizeof address.sun_path - 1);
  int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(hook_finding(hook).verdict, Verdict::bad) << "nobody listens";
  ASSERT_EQ(listen(listener, 1), 0);
  EXPECT_EQ(hook_finding(hook).verdict, Verdict::good);
  close(listener);

  hook.kind = HookKind::exec;
  hook.command = {dir / "tell-engine", "--quietly"};
  EXPECT_EQ(hook_finding(hook).verdict, Verdict::bad) << "is not there";
  ASSERT_TRUE(write_small_file(dir / "tell-engine", "#!/bin/sh\nexit 1\n", 0644).ok());
  EXPECT_NE(hook_finding(hook).remedy.find("chmod 755 "), std::string::npos);
  chmod(hook.command[0].c_str(), 0755);
  EXPECT_EQ(hook_finding(hook).verdict, Verdict::good) << "it is not run: it would fail";
  chmod(hook.command[0].c_str(), 0757);
  EXPECT_EQ(hook_finding(hook).verdict, Verdict::warning);
  hook.command = {dir.path()};
  EXPECT_EQ(hook_finding(hook).verdict, Verdict::bad) << "a folder";
}

TEST(Doctor, ChannelsTellTheirProblems) {
  api::StatusReply status;
  status.channels.resize(4);
  status.channels[0].channel = "a";
  status.channels[1].channel = "b";
  status.channels[1].head = "frozen";
  status.channels[2].channel = "c";
  status.channels[2].problem = "the disk is full";
  status.channels[3].channel = "d";
  status.channels[3].engine = "unknown";
  Findings findings;
  check_channels(status, findings);
  expect(findings, "channel a", Verdict::good);
  expect(findings, "channel b", Verdict::warning);
  expect(findings, "channel c", Verdict::bad);
  expect(findings, "channel d", Verdict::warning);
}

TEST(Doctor, TheVerbEndsWithOneAndTheList) {
  TempDir dir;
  auto set_up = testing::run_p2pw({"init", "-c", "policy", "-r", "us", "--address", "127.0.0.1", "--port", "1", "--swarm-port",
                                   "2", "--config", dir / "p2pw.toml", "--state", dir / "state"});
  ASSERT_EQ(set_up.exit_code, 0) << set_up.err;
  auto ran = testing::run_p2pw({"doctor", "--json", "--config", dir / "p2pw.toml"});
  EXPECT_EQ(ran.exit_code, 1) << "no daemon runs";
  Json json = Json::parse(ran.out, nullptr, false);
  ASSERT_TRUE(json.is_object()) << ran.out;
  EXPECT_EQ(json["ok"], false);
  EXPECT_EQ(json["error"]["code"], "failed");
  auto text = testing::run_p2pw({"doctor", "--config", dir / "p2pw.toml"});
  EXPECT_NE(text.out.find("failed   daemon:"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("systemctl start p2pwd"), std::string::npos);
}

}  // namespace
}  // namespace p2pw::doctor
