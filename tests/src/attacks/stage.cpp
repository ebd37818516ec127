#include "tests/src/attacks/stage.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>

#include "daemon/client/fleet_secrets.h"
#include "daemon/core/secrets.h"

namespace p2pw::attacks {

namespace fs = std::filesystem;

namespace {

std::uint16_t free_port() {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  close(fd);
  return ntohs(address.sin_port);
}

}  // namespace

bool Stage::up(std::string& why) {
  series = fleet_.path() / "series";
  testing::make_series(series, "8MiB", 4);
  fleet_.start_trainer([](Config& config) {
    config.api.http_address = "127.0.0.1";
    config.api.http_port = free_port();
    config.api.token = kApiToken;
    config.links.wan_rate_limit_mbit = 40;  // so that a version takes its time
  });
  fleet_.start_node("r1", 1);
  fleet_.start_node("r1", 2);
  fleet_.start_node("r2", 1);
  if (fleet_.wait_joined(4) < 4) {
    why = "the fleet did not come up\n" + fleet_.logs();
    return false;
  }
  auto seeded = fleet_.seed(series / "step_0000", {"--wait-active", "100%"});
  if (seeded.exit_code != 0) why = "the first version was not published: " + seeded.err;
  return seeded.exit_code == 0;
}

const Config& Stage::config(const std::string& daemon) {
  auto it = configs_.find(daemon);
  if (it == configs_.end()) it = configs_.emplace(daemon, load_config(fleet_.folder(daemon) / "p2pw.toml").value()).first;
  return it->second;
}

LinkEndpoint Stage::link_of(const std::string& daemon) {
  return {config(daemon).listen.address, config(daemon).listen.port};
}

NodeKey Stage::key_of(const std::string& daemon) {
  return node_key_of(*load_node_key(config(daemon).paths()));
}

FleetSecret Stage::secret() { return load_fleet_secrets(config("r1-1").paths()).value().front().clone(); }

void Stage::pump(int milliseconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  testing::run_until(io_, [&] { return std::chrono::steady_clock::now() > end; });
}

nlohmann::json Stage::status(const std::string& daemon) {
  auto ran = fleet_.p2pw(daemon, {"status"}, 20);
  return ran.exit_code == 0 ? ran.json : nlohmann::json{{"links", nlohmann::json::array()}, {"dead", true}};
}

bool Stage::has_event(const std::string& daemon, const std::string& event, const std::string& detail) {
  std::istringstream lines(fleet_.p2pw(daemon, {"log"}, 20).out);
  for (std::string line; std::getline(lines, line);) {
    if (line.find('"' + event + '"') != std::string::npos && line.find(detail) != std::string::npos) return true;
  }
  return false;
}

std::uint64_t Stage::rss(const std::string& daemon) {
  std::ifstream in("/proc/" + std::to_string(fleet_.pid(daemon)) + "/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("RssAnon:")) return std::stoull(line.substr(8)) * 1024;
  }
  return 0;
}

std::size_t Stage::descriptors(const std::string& daemon) {
  std::error_code ignored;
  fs::directory_iterator all("/proc/" + std::to_string(fleet_.pid(daemon)) + "/fd", ignored);
  return static_cast<std::size_t>(std::distance(fs::begin(all), fs::end(all)));
}

namespace {

std::string exchange(int fd, const std::string& bytes) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    ssize_t n = ::send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) break;
    sent += static_cast<std::size_t>(n);
  }
  ::shutdown(fd, SHUT_WR);
  std::string answer;
  char buffer[4096];
  pollfd waiting{fd, POLLIN, 0};
  while (poll(&waiting, 1, 10'000) > 0) {
    ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n <= 0) break;
    answer.append(buffer, static_cast<std::size_t>(n));
  }
  close(fd);
  return answer;
}

}  // namespace

std::string Stage::http(const std::string& text) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(config("trainer").api.http_port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    close(fd);
    return "no connection";
  }
  return exchange(fd, text);
}

std::string Stage::over_socket(const fs::path& socket_path, const std::string& bytes) {
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket_path.string().copy(address.sun_path, sizeof address.sun_path - 1);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    close(fd);
    return "no connection";
  }
  return exchange(fd, bytes);
}

bool Stage::healthy(std::string& why) {
  for (const char* daemon : kDaemons) {
    const auto s = status(daemon);
    if (s.contains("dead")) {
      why = std::string(daemon) + " does not answer any more";
      return false;
    }
    if (s["channels"][0]["version_active"].get<std::uint64_t>() < 1) {
      why = std::string(daemon) + " has lost its version";
      return false;
    }
  }
  return true;
}

Insider::Insider(Stage& stage, const std::string& victim, const std::string& region,
                 std::function<void(wire::Hello&)> change)
    : stage_(stage), peer_(stage.io()), timer_(stage.io()) {
  peer_.on_frame = [this](const Frame& frame) {
    wire::LinkMessage message;
    if (!linked_) {
      linked_ = true;  // the daemon's proof
    } else if (message.ParseFromArray(frame.header.data(), static_cast<int>(frame.header.size())) && on_message) {
      on_message(message, frame.payload);
    }
    peer_.frames.clear();
  };
  const FleetSecret secret = stage.secret();
  peer_.connect(stage.link_of(victim), [&] {
    auto offer = peer_.offer(secret, LinkPurpose::control);
    wire::Hello& hello = *offer.mutable_hello();
    hello.set_region(region);
    hello.set_incarnation(1);
    hello.add_channels("policy");
    auto* endpoint = hello.add_endpoints();
    endpoint->set_address("127.0.0.1");
    endpoint->set_port(9);
    if (change) change(hello);
    peer_.say(offer.SerializeAsString());
  });
  stage.until([&] { return linked_ || peer_.gone; });
  beat();
}

void Insider::beat() {
  if (!linked()) return;
  wire::LinkMessage message;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  message.mutable_heartbeat()->set_sent_us(
      static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(now).count()));
  say(message);
  timer_.expires_after(std::chrono::milliseconds(500));
  timer_.async_wait([this](boost::system::error_code error) {
    if (!error) beat();
  });
}

void Insider::flush() {
  stage_.until([&] { return peer_.gone || peer_.connection->queued_bytes() == 0; }, 30);
}

}  // namespace p2pw::attacks
