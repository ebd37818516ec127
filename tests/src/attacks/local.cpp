// This machine: other users, web pages, files that were tampered with.
#include <sys/stat.h>

#include <fstream>

#include "tests/src/attacks/stage.h"

namespace p2pw::attacks {
namespace {

namespace fs = std::filesystem;

std::string get(const std::string& target, const std::string& headers) {
  return "GET " + target + " HTTP/1.1\r\nConnection: close\r\n" + headers + "\r\n";
}
const std::string kHost = "Host: localhost\r\n";
std::string bearer() { return std::string("Authorization: Bearer ") + Stage::kApiToken + "\r\n"; }

int status_of(const std::string& answer) {
  return answer.size() > 12 && answer.starts_with("HTTP/1.") ? std::stoi(answer.substr(9, 3)) : 0;
}

Outcome expect_status(int got, int wanted) {
  return {got == wanted, "answered with " + std::to_string(got)};
}

Outcome no_token(Stage& stage) {
  if (status_of(stage.http(get("/v1/status", kHost + bearer()))) != 200) return {false, "not even the right token works"};
  return expect_status(status_of(stage.http(get("/v1/status", kHost))), 401);
}
Outcome wrong_token(Stage& stage) {
  return expect_status(status_of(stage.http(get("/v1/status", kHost + "Authorization: Bearer attack-test-tokeN\r\n"))), 401);
}
Outcome rebinding(Stage& stage) {
  return expect_status(status_of(stage.http(get("/v1/status", "Host: evil.example\r\n" + bearer()))), 403);
}
Outcome cross_site(Stage& stage) {
  const int post = status_of(stage.http("POST /v1/tokens HTTP/1.1\r\nConnection: close\r\n" + kHost + bearer() +
                                        "Origin: http://evil.example\r\nContent-Length: 0\r\n\r\n"));
  const int read = status_of(stage.http(get("/v1/status", kHost + bearer() + "Origin: http://evil.example\r\n")));
  const int image = status_of(stage.http(get("/v1/status", kHost + bearer() + "Sec-Fetch-Site: cross-site\r\n")));
  return {post == 403 && read == 403 && image == 403, "a form, a fetch and an image of another page are answered with 403"};
}
Outcome huge_header(Stage& stage) {
  const std::string answer = stage.http(get("/v1/status", kHost + bearer() + "X: " + std::string(1 << 20, 'x') + "\r\n"));
  return {status_of(answer) != 200, "a header of 1 MiB: connection closed"};
}
Outcome huge_body(Stage& stage) {
  const std::string answer = stage.http("POST /v1/tokens HTTP/1.1\r\nConnection: close\r\n" + kHost + bearer() +
                                        "Content-Length: 1000000000000\r\n\r\n{");
  return {status_of(answer) != 200, "a body of 1 TB announced: connection closed"};
}
Outcome paths(Stage& stage) {
  int found = 0;
  for (const char* target : {"/../../../../etc/passwd", "/v1/channels/../../etc/passwd/wait", "/v1/channels/%2e%2e%2f%2e%2e/wait",
                             "/v1/channels/policy%00/wait", "/v1/channels//etc/passwd/activate", "/v1/channels/POLICY/wait",
                             "/v1/log?channel=../../etc", "//etc/passwd"}) {
    const std::string answer = stage.http(get(target, kHost + bearer()));
    found += answer.find("root:") != std::string::npos || (status_of(answer) == 200 && std::string(target).find("log") == std::string::npos);
  }
  return {found == 0, "eight requests with .., NUL, absolute and misspelt names: no file, no channel"};
}

Outcome idle_connections(Stage& stage) {
  const std::size_t before = stage.descriptors("trainer");
  std::vector<testing::Process> idle;
  idle.emplace_back(std::vector<std::string>{"/usr/bin/python3", "-c",
                                             "import socket,time\n"
                                             "s=[socket.create_connection(('127.0.0.1'," +
                                                 std::to_string(stage.config("trainer").api.http_port) +
                                                 ")) for _ in range(600)]\ntime.sleep(60)"},
                    stage.fleet().path() / "idle.log");
  stage.until([&] { return stage.descriptors("trainer") > before + 200; }, 10);
  stage.pump(500);
  const std::size_t held = stage.descriptors("trainer") - before;
  std::string why;
  const bool links = stage.status("r1-1")["links"].size() > 0;
  idle.clear();
  stage.until([&] { return stage.descriptors("trainer") <= before + 5; }, 10);
  return {held < 300 && links, "600 silent connections hold " + std::to_string(held) + " descriptors; links are not touched" + why};
}

Outcome publish_garbage(Stage& stage) {
  const fs::path socket = stage.state("trainer") / "publish.sock";
  const std::string huge = stage.over_socket(socket, std::string("\xff\xff\xff\x7f\xff\xff\xff\x7f", 8));
  const std::string junk = stage.over_socket(socket, std::string("\x08\0\0\0\0\0\0\0", 8) + "\xff\xff\xff\xff\xff\xff\xff\xff");
  std::string why;
  return {huge.find("too large") != std::string::npos && junk.find("cannot be parsed") != std::string::npos && stage.healthy(why),
          "lengths of 2 GiB and unreadable messages are refused by name" + why};
}

Outcome socket_modes(Stage& stage) {
  int open = 0;
  for (const char* name : {"api.sock", "publish.sock"}) {
    struct stat info {};
    open += stat((stage.state("trainer") / name).c_str(), &info) != 0 || (info.st_mode & 07) != 0;
  }
  return {open == 0, "both sockets are closed to users outside the group (mode 0660)"};
}

// A daemon is stopped, one of its files gets another mode, and it is started again.
Outcome readable_key(Stage& stage, const std::string& name) {
  const fs::path key = stage.state("r2-1") / name;
  stage.fleet().kill("r2-1");
  chmod(key.c_str(), 0644);
  auto ran = testing::run({std::string(P2PW_BIN_DIR) + "/p2pwd", "--config", (stage.fleet().folder("r2-1") / "p2pw.toml").string()}, 10);
  chmod(key.c_str(), 0600);
  stage.fleet().start("r2-1");
  stage.until([&] { return !stage.status("r2-1").contains("dead"); }, 20);
  return {ran.exit_code == 4 && ran.err.find("chmod") != std::string::npos, "p2pwd does not start: " + ran.err.substr(0, ran.err.find('\n'))};
}
Outcome readable_node_key(Stage& stage) { return readable_key(stage, "node.key"); }
Outcome readable_secret(Stage& stage) { return readable_key(stage, "fleet/0001.secret"); }

// Somebody who can write into a channel's folder puts a link to another file in a slot's place.
Outcome symlink_in_slot(Stage& stage) {
  const fs::path root = stage.state("r2-1") / "channels/policy";
  const fs::path outside = stage.fleet().path() / "outside";
  std::ofstream(outside) << "precious";
  stage.fleet().kill("r2-1");
  std::size_t replaced = 0;
  const fs::path live = fs::canonical(stage.fleet().current("r2-1"));
  for (auto& entry : fs::recursive_directory_iterator(root)) {
    const bool standby = entry.path().string().find(live.string()) == std::string::npos;
    if (!entry.is_regular_file() || !standby || entry.path().extension() != ".safetensors") continue;
    fs::remove(entry.path());
    fs::create_symlink(outside, entry.path());
    ++replaced;
  }
  stage.fleet().start("r2-1");
  stage.until([&] { return !stage.status("r2-1").contains("dead"); }, 20);
  auto seeded = stage.fleet().seed(stage.series / "step_0003", {"--wait-active", "75%"});
  stage.pump(500);
  std::ifstream in(outside);
  const std::string kept{std::istreambuf_iterator<char>(in), {}};
  return {replaced > 0 && kept == "precious",
          std::to_string(replaced) + " links were planted; the file that they lead to is untouched" +
              (seeded.exit_code == 0 ? "" : " (the seed: " + seeded.err + ")")};
}

}  // namespace

void add_local(std::vector<Attack>& attacks) {
  attacks.insert(attacks.end(), {{"api: no token", no_token},
                                 {"api: a wrong token", wrong_token},
                                 {"api: DNS rebinding", rebinding},
                                 {"api: a page of another site", cross_site},
                                 {"api: a header of 1 MiB", huge_header},
                                 {"api: a body of 1 TB", huge_body},
                                 {"api: paths out of the resources", paths},
                                 {"api: 600 silent connections", idle_connections},
                                 {"publish socket: huge lengths and garbage", publish_garbage},
                                 {"sockets: other users", socket_modes},
                                 {"files: a node key that others may read", readable_node_key},
                                 {"files: a fleet secret that others may read", readable_secret},
                                 {"files: links planted in the standby slot", symlink_in_slot}});
}

}  // namespace p2pw::attacks
