// The process that runs a node's swarm, taken over by a neighbour: what it holds, what it can reach, what its lies do.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "daemon/client/fleet_secrets.h"
#include "daemon/core/secrets.h"
#include "tests/integration/wire_capture.h"
#include "tests/src/attacks/stage.h"

namespace p2pw::attacks {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNodes[] = {"r1-1", "r1-2", "r2-1"};

std::string slurp(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string proc_of(Stage& stage, const char* node) { return "/proc/" + std::to_string(stage.fleet().swarm_pid(node)); }

// What its memory must not hold: files as they lie on the disk, and the bytes in them.
testing::Needles secrets_of(Stage& stage, const char* node) {
  testing::Needles needles;
  auto add_file = [&](const std::string& name, const fs::path& file) {
    std::istringstream lines(slurp(file));
    for (std::string line; std::getline(lines, line);) {
      if (line.size() >= 40 && !line.starts_with("untrusted") && !line.starts_with("trusted")) needles.add(name, line);
    }
  };
  add_file("node key", stage.state(node) / "node.key");
  const auto secrets = load_fleet_secrets(stage.config(node).paths());
  for (const FleetSecret& secret : *secrets) {
    needles.add("fleet secret", std::string(reinterpret_cast<const char*>(secret.raw().data()), 32));
  }
  // Weights: every 64 KiB of what is served, 32 bytes.
  for (const auto& entry : fs::directory_iterator(stage.fleet().current(node))) {
    if (entry.path().extension() != ".safetensors") continue;
    const std::string all = slurp(entry.path());
    for (std::size_t at = 4096; at + 32 < all.size(); at += 65'536) needles.add("weights", all.substr(at, 32));
  }
  return needles;
}

// Nothing when it cannot be read at all.
std::optional<std::vector<std::string>> found_in_memory(const std::string& proc, const testing::Needles& needles, std::size_t& searched) {
  const int memory = open((proc + "/mem").c_str(), O_RDONLY | O_CLOEXEC);
  if (memory < 0) return std::nullopt;
  std::vector<std::string> found;
  std::istringstream maps(slurp(proc + "/maps"));
  for (std::string line; std::getline(maps, line);) {
    std::uint64_t begin = 0, end = 0;
    char mode[5] = "";
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, mode) != 3 || mode[0] != 'r') continue;
    std::string part(static_cast<std::size_t>(std::min<std::uint64_t>(end - begin, 256u << 20)), '\0');
    const ssize_t n = pread(memory, part.data(), part.size(), static_cast<off_t>(begin));
    if (n <= 0) continue;
    part.resize(static_cast<std::size_t>(n));
    searched += part.size();
    for (std::string& name : needles.found_in(part)) found.push_back(std::move(name));
  }
  close(memory);
  return found;
}

Outcome what_it_holds(Stage& stage) {
  std::size_t searched = 0, strange = 0, files = 0;
  std::string found;
  bool confined = true;
  for (const char* node : kNodes) {
    const std::string proc = proc_of(stage, node);
    const std::string status = slurp(proc + "/status");
    confined = confined && status.find("NoNewPrivs:\t1") != std::string::npos && status.find("Seccomp:\t2") != std::string::npos;
    const testing::Needles needles = secrets_of(stage, node);
    auto names = found_in_memory(proc, needles, searched);
    if (!names) return {confined, "nobody of the same user may read its memory (the search needs root)"};
    for (const std::string& name : *names) found += " " + name;
    if (!slurp(proc + "/environ").empty()) found += " environment";
    for (const auto& entry : fs::directory_iterator(proc + "/fd")) {
      std::error_code gone;
      const std::string to = fs::read_symlink(entry.path(), gone);
      if (gone || !to.starts_with("/") || std::stoi(entry.path().filename().string()) <= 2) continue;
      ++(to.ends_with(".bundle") ? files : strange);
    }
  }
  return {confined && found.empty() && strange == 0 && files > 0,
          std::to_string(searched >> 20) + " MiB of memory of three processes: no key, secret, weights, environment" +
              (found.empty() ? "" : " BUT" + found) + "; " + std::to_string(files) + " descriptors of bundles, " +
              std::to_string(strange) + " of other files; " + (confined ? "seccomp is on" : "seccomp is OFF")};
}

// It holds the descriptors of bundles and may write there what it likes, at any time, also after a chunk was checked. (At
// the node that is alone in its region: others would block it for what its swarm hands out.)
Outcome writes_wrong_bytes(Stage& stage) {
  std::atomic<bool> stop{false};
  std::atomic<int> written{0};
  const fs::path bundles = stage.state("r2-1") / "channels/policy/bundles";
  std::thread spoiler([&] {
    std::mt19937_64 random(1);
    while (!stop) {
      std::error_code gone;
      for (const auto& entry : fs::directory_iterator(bundles, gone)) {
        if (entry.path().extension() != ".bundle") continue;
        const int fd = open(entry.path().c_str(), O_RDWR | O_CLOEXEC);
        const off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
        for (off_t at = 0; at < size; at += 65'536) written += pwrite(fd, "spoilt", 6, at + static_cast<off_t>(random() % 60'000)) == 6;
        if (fd >= 0) close(fd);
      }
      usleep(1000);
    }
  });
  testing::Process seed(stage.fleet().p2pw_command("trainer", {"seed", (stage.series / "step_0004").string(), "--kind", "anchor"}),
                        stage.fleet().path() / "spoilt-seed.log");
  stage.until([&] { return stage.has_event("r2-1", "bundle-damaged"); }, 20);
  stop = true;
  spoiler.join();
  const bool complete = stage.until([&] {
    return testing::same_tree(stage.series / "step_0004", stage.fleet().current("r2-1")) &&
           testing::same_tree(stage.series / "step_0004", stage.fleet().current("r1-2"));
  }, 60);
  const bool noticed = stage.has_event("r2-1", "bundle-damaged") && stage.has_event("r2-1", "swarm-ended", "other bytes");
  bool identical = complete, banned = false;
  for (const char* daemon : Stage::kDaemons) {
    identical = identical && testing::same_tree(stage.series / "step_0004", stage.fleet().current(daemon));
    for (const char* node : kNodes) banned = banned || stage.has_event(daemon, "ban", stage.key_of(node).hex());
  }
  return {noticed && identical && !banned,
          std::to_string(written.load()) + " writes into a node's bundle files while an anchor spread: " +
              (noticed ? "found when the bytes were used, the process was replaced" : "not noticed") + "; " +
              (complete ? "the version reached everybody" : "the version did not complete") +
              (identical ? ", exact" : ", NOT exact") + (banned ? "; a node was banned for it" : "; no node was banned for it")};
}

Outcome killed(Stage& stage) {
  for (int round = 0; round < 3; ++round) {
    for (const char* node : kNodes) {
      const pid_t pid = stage.fleet().swarm_pid(node);
      if (pid > 0) ::kill(pid, SIGKILL);
    }
    stage.pump(300);
  }
  const bool back = stage.until([&] {
    for (const char* node : kNodes) {
      if (stage.fleet().swarm_pid(node) == 0) return false;
    }
    return true;
  }, 20);
  std::string why;
  return {back && stage.healthy(why) && stage.has_event("r1-1", "swarm-ended"),
          "killed three times at three nodes: told in the log, started again, the daemons live" + why};
}

}  // namespace

void add_swarm_process(std::vector<Attack>& attacks) {
  attacks.insert(attacks.end(), {{"swarm process taken over: reads keys, secrets, weights", what_it_holds},
                                 {"swarm process taken over: lies about chunks and spoils them", writes_wrong_bytes},
                                 {"swarm process: crashes again and again", killed}});
}

}  // namespace p2pw::attacks
