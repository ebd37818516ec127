#include "tests/integration/fleet.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <sstream>

namespace p2pw::testing {

namespace fs = std::filesystem;

namespace {

// P2PW_BIN: other programs than those of this build.
const std::string kBin = std::getenv("P2PW_BIN") != nullptr ? std::getenv("P2PW_BIN") : P2PW_BIN_DIR;
constexpr int kPort = 4710;

std::string slurp(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

pid_t spawn(const std::vector<std::string>& command, int out, int err) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_t parent = getpid();
  pid_t pid = fork();
  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // nothing survives a test that is killed
  if (getppid() != parent) _exit(127);
  int null = open("/dev/null", O_RDONLY);
  dup2(null, 0);
  dup2(out, 1);
  dup2(err, 2);
  execv(argv[0], argv.data());
  _exit(127);
}

nlohmann::json last_json(const std::string& out) {
  auto end = out.find_last_not_of('\n');
  if (end == std::string::npos) return nullptr;
  auto begin = out.rfind('\n', end);
  return nlohmann::json::parse(out.substr(begin == std::string::npos ? 0 : begin + 1), nullptr, false);
}

// A second octet whose addresses nobody listens on.
int free_net() {
  for (int i = 0; i < 200; ++i) {
    int net = 20 + (static_cast<int>(getpid()) * 7 + i) % 200;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(kPort);
    address.sin_addr.s_addr = htonl(0x7f000000u | static_cast<unsigned>(net) << 16 | 1u);
    bool good = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    close(fd);
    if (good) return net;
  }
  return 20;
}

}  // namespace

Process::Process(const std::vector<std::string>& command, const fs::path& log) {
  int fd = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  pid_ = spawn(command, fd, fd);
  close(fd);
}

Process::~Process() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  wait();
}

void Process::signal(int number) const {
  if (pid_ > 0) ::kill(pid_, number);
}

int Process::wait() {
  int status = 0;
  if (pid_ <= 0) return -1;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

Ran run(const std::vector<std::string>& command, int seconds) {
  TempDir dir;
  Ran ran;
  int out = open((dir / "out").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  int err = open((dir / "err").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  pid_t pid = spawn(command, out, err);
  close(out);
  close(err);
  int pidfd = static_cast<int>(syscall(434 /* pidfd_open */, pid, 0));
  pollfd waiting{pidfd, POLLIN, 0};
  if (poll(&waiting, 1, seconds * 1000) == 0) ::kill(pid, SIGKILL);
  close(pidfd);
  int status = 0;
  waitpid(pid, &status, 0);
  ran.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  ran.out = slurp(dir / "out");
  ran.err = slurp(dir / "err");
  ran.json = last_json(ran.out);
  return ran;
}

Fleet::Fleet() : net_(free_net()) {}

std::string Fleet::address(const std::string& region, int number) {
  auto [it, inserted] = regions_.try_emplace(region, static_cast<int>(regions_.size()));
  return "127." + std::to_string(net_) + "." + std::to_string(it->second) + "." + std::to_string(number);
}

void Fleet::start_trainer(const std::function<void(Config&)>& change) {
  std::string at = address("home", 1);
  fs::create_directories(folder("trainer"));
  Ran init = p2pw("trainer", {"init", "--channel", "policy", "--region", "home", "--address", at, "--listen", at, "--name",
                              "trainer", "--uses", "100", "--state", (folder("trainer") / "state").string()});
  ASSERT_EQ(init.exit_code, 0) << init.err;
  token_ = init.json["token"];
  if (change) configure("trainer", change);
  start("trainer");
}

void Fleet::configure(const std::string& name, const std::function<void(Config&)>& change) {
  const fs::path file = folder(name) / "p2pw.toml";
  auto config = load_config(file);
  ASSERT_TRUE(config.ok()) << config.error().message;
  change(*config);
  auto saved = save_config(*config, file, true);
  ASSERT_TRUE(saved.ok()) << saved.error().message;
}

void Fleet::start_node(const std::string& region, int number, const std::function<void(Config&)>& change) {
  std::string name = region + "-" + std::to_string(number);
  std::string at = address(region, number);
  fs::create_directories(folder(name));
  Ran join = p2pw(name, {"join", token_, "--region", region, "--address", at, "--listen", at, "--name", name, "--state",
                         (folder(name) / "state").string()});
  ASSERT_EQ(join.exit_code, 0) << join.err;
  if (change) configure(name, change);
  start(name);
}

void Fleet::start(const std::string& name) {
  daemons_[name] = Process({kBin + "/p2pwd", "--config", (folder(name) / "p2pw.toml").string()}, folder(name) / "log");
}

void Fleet::kill(const std::string& name) {
  daemons_[name].signal(SIGKILL);
  daemons_[name].wait();
}

void Fleet::stop_all() {
  for (auto& [name, daemon] : daemons_) daemon.signal(SIGTERM);
  for (auto& [name, daemon] : daemons_) daemon.wait();
}

std::vector<std::string> Fleet::p2pw_command(const std::string& daemon, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), kBin + "/p2pw");
  arguments.push_back("--json");
  arguments.push_back("--config");
  arguments.push_back((folder(daemon) / "p2pw.toml").string());
  return arguments;
}

Ran Fleet::p2pw(const std::string& daemon, std::vector<std::string> arguments, int seconds) {
  return run(p2pw_command(daemon, std::move(arguments)), seconds);
}

Ran Fleet::seed(const fs::path& checkpoint, std::vector<std::string> more) {
  more.insert(more.begin(), {"seed", checkpoint.string(), "--wait"});
  return p2pw("trainer", more);
}

std::size_t Fleet::wait_active(std::uint64_t version, std::size_t nodes, int seconds, const std::string& channel) {
  auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  std::size_t active = 0;
  while (std::chrono::steady_clock::now() < deadline) {
    // `wait` blocks until everybody who is known has the version; repeated while nodes are still joining.
    Ran waited = p2pw("trainer", {"wait", "--channel", channel, "--version", std::to_string(version), "--active", "100%",
                                  "--of", "live", "--timeout", "5"});
    if (waited.json.is_object() && waited.json.contains("active")) active = waited.json["active"];
    if (active >= nodes) break;
    poll(nullptr, 0, 50);
  }
  return active;
}

std::size_t Fleet::wait_joined(std::size_t nodes, int seconds) {
  auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  std::size_t joined = 0;
  while (std::chrono::steady_clock::now() < deadline && joined < nodes) {
    Ran status = p2pw("trainer", {"status"});
    joined = status.json.is_object() ? status.json["nodes"].size() : 0;
    if (joined < nodes) poll(nullptr, 0, 50);
  }
  return joined;
}

void Fleet::add_channel(const std::string& daemon, const std::string& channel) {
  std::vector<std::string> words{"channel", "add", channel};
  if (daemon != "trainer") {
    auto config = load_config(folder("trainer") / "p2pw.toml");
    ASSERT_TRUE(config.ok()) << config.error().message;
    const ChannelConfig* published = config->channel(Channel::parse(channel).value());
    ASSERT_NE(published, nullptr) << channel;
    words.insert(words.end(), {"--publisher", published->publisher.line()});
  }
  Ran added = p2pw(daemon, words);
  ASSERT_EQ(added.exit_code, 0) << added.err;
  daemons_[daemon].signal(SIGTERM);
  daemons_[daemon].wait();
  start(daemon);
}

fs::path Fleet::current(const std::string& name, const std::string& channel) const {
  return folder(name) / "state" / "channels" / channel / "current";
}

std::vector<std::string> Fleet::nodes() const {
  std::vector<std::string> names;
  for (auto& [name, daemon] : daemons_) {
    if (name != "trainer") names.push_back(name);
  }
  names.push_back("trainer");
  return names;
}

std::map<std::string, std::uint64_t> Fleet::payload_into(std::uint64_t version) {
  std::map<std::string, std::uint64_t> sent;
  for (const std::string& name : nodes()) {
    Ran status = p2pw(name, {"status"});
    if (!status.json.is_object()) continue;
    for (auto& copy : status.json["copies"]) {
      if (copy["version"] != version) continue;
      sent[copy["region"]] += copy["payload_bytes"].get<std::uint64_t>();
      if (name == "trainer") sent["out of the trainer"] += copy["payload_bytes"].get<std::uint64_t>();
    }
  }
  return sent;
}

std::uint64_t Fleet::used_bytes(std::uint64_t version) {
  Ran status = p2pw("trainer", {"status"});
  for (auto& copy : status.json["copies"]) {
    if (copy["version"] == version) return copy["used_bytes"];
  }
  return 0;
}

pid_t Fleet::swarm_pid(const std::string& name) const {
  const std::string daemon = std::to_string(pid(name));
  std::ifstream in("/proc/" + daemon + "/task/" + daemon + "/children");
  for (pid_t child; in >> child;) {
    if (slurp("/proc/" + std::to_string(child) + "/comm") == "p2pwd-swarm\n") return child;
  }
  return 0;
}

std::string Fleet::logs() const {
  std::string all;
  for (auto& [name, daemon] : daemons_) {
    std::string log = slurp(folder(name) / "log");
    all += "--- " + name + "\n" + log.substr(log.size() > 3000 ? log.size() - 3000 : 0) + "\n";
  }
  return all;
}

fs::path make_series(const fs::path& out, const std::string& bytes, int steps, std::vector<std::string> more) {
  std::vector<std::string> command{kBin + "/p2pw-series", out.string(), "--bytes", bytes, "--changed", "2", "--steps",
                                   std::to_string(steps)};
  command.insert(command.end(), more.begin(), more.end());
  Ran made = run(command);
  EXPECT_EQ(made.exit_code, 0) << made.err;
  return out;
}

bool same_tree(const fs::path& a, const fs::path& b) {
  auto list = [](const fs::path& root) {
    std::map<std::string, std::string> files;
    for (auto& entry : fs::recursive_directory_iterator(fs::canonical(root))) {
      if (entry.is_regular_file()) files[fs::relative(entry.path(), fs::canonical(root)).string()] = slurp(entry.path());
    }
    return files;
  };
  std::error_code missing;
  if (!fs::exists(a, missing) || !fs::exists(b, missing)) return false;
  return list(a) == list(b);
}

}  // namespace p2pw::testing
