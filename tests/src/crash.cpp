// Kills real node daemons with SIGKILL at random instants, again and again, while versions are published: whatever they
// were doing (fetching, rebuilding, switching, activating, catching up, starting), `current` must name a published version,
// byte for byte, and every node must come to the newest one afterwards. tests/crash builds and runs it.
//
// One fleet: a trainer, a node that nobody harms, and the victims. For each published version every victim is killed at
// an instant of its own, at times twice; each kill is one round.
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <random>

#include "tests/integration/fleet.h"

namespace {

namespace fs = std::filesystem;
using namespace p2pw::testing;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

struct Options {
  unsigned rounds = 100, victims = 4;
  std::uint64_t seed = 0;
  std::string bytes = "3MiB";
  int patience = 60;
  bool json = false, verbose = false;
};

struct Score {
  unsigned rounds = 0, wrong_current = 0, unfinished = 0, published = 0;
  unsigned while_fetching = 0, after_switch = 0, while_starting = 0;
};

// The version in the state file of the slot that `current` names; 0: none.
std::uint64_t version_at(const fs::path& current) {
  std::error_code none;
  fs::path target = fs::read_symlink(current, none);
  if (none) return 0;
  std::ifstream state(current.parent_path() / target / ".." / "state", std::ios::binary);
  // "P2PWSLOT", format u32, phase u8, base version u64: chunker/slot_state.h.
  char head[21];
  if (!state.read(head, sizeof head) || head[12] != 1) return 0;
  std::uint64_t version = 0;
  for (int i = 7; i >= 0; --i) version = version << 8 | static_cast<unsigned char>(head[13 + i]);
  return version;
}

class Crash {
 public:
  Crash(const Options& options) : options_(options), random_(options.seed) {}

  bool set_up() {
    make_series(fleet_.path() / "even", options_.bytes, kSteps, {"--change-config", "--dtype", "mixed"});
    // Other tensors: every switch between the two series is a changed layout.
    make_series(fleet_.path() / "odd", options_.bytes, kSteps, {"--change-config", "--dtype", "BF16", "--seed", "9"});
    fleet_.start_trainer();
    fleet_.start_node("r1", 1);
    for (unsigned i = 0; i < options_.victims; ++i) {
      fleet_.start_node("r1", static_cast<int>(i) + 2);
      victims_.push_back("r1-" + std::to_string(i + 2));
    }
    checked_.assign(victims_.size(), 0);
    return fleet_.wait_joined(options_.victims + 2) == options_.victims + 2;
  }

  // False: something is so wrong that going on tells nothing.
  bool batch() {
    std::uint64_t version = ++score_.published;
    contents_.push_back(next_checkpoint());
    began_ = Clock::now();
    tell("version " + std::to_string(version));
    Process seed(fleet_.p2pw_command("trainer", {"seed", contents_.back().string(), "--wait"}), fleet_.path() / "seed.log");
    harm_all(version);
    bool published = seed.wait() == 0;
    tell("seeded");
    if (!published) {
      say("version " + std::to_string(version) + " could not be published: " + slurp(fleet_.path() / "seed.log"));
      ++score_.unfinished;
      return false;
    }
    return finish(version);
  }

  const Score& score() const { return score_; }
  Fleet& fleet() { return fleet_; }

 private:
  static constexpr int kSteps = 5;

  static std::string slurp(const fs::path& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void say(const std::string& text) { std::cerr << text << "\n"; }
  void tell(const std::string& text) {
    if (!options_.verbose) return;
    say(std::to_string(std::chrono::duration<double>(Clock::now() - born_).count()) + " " + text);
  }

  // To and fro along one series; the other one now and then.
  fs::path next_checkpoint() {
    std::size_t n = contents_.size();
    std::string series = (n / 17) % 2 == 0 ? "even" : "odd";
    int step = static_cast<int>(n % (2 * kSteps));
    return fleet_.path() / series / ("step_000" + std::to_string(step <= kSteps ? step : 2 * kSteps - step));
  }

  // What a dead node shows: nothing before its first version, else one between what it was last seen at and `newest`.
  bool exact(std::size_t victim, std::uint64_t newest) {
    fs::path current = fleet_.current(victims_[victim]);
    std::error_code none;
    if (!fs::is_symlink(current, none)) {
      if (checked_[victim] == 0) return true;
      say(victims_[victim] + ": current is gone; it was at version " + std::to_string(checked_[victim]));
      return false;
    }
    std::uint64_t version = version_at(current);
    bool in_range = version >= std::max<std::uint64_t>(checked_[victim], 1) && version <= newest;
    if (in_range && same_tree(contents_[version - 1], current)) {
      checked_[victim] = version;
      return true;
    }
    say(victims_[victim] + ": current says version " + std::to_string(version) + " (seen before: " +
        std::to_string(checked_[victim]) + ", newest: " + std::to_string(newest) + ") and " +
        (in_range ? "does not hold it" : "is out of range"));
    return false;
  }

  // From the main thread alone: what a thread has started dies with it (PR_SET_PDEATHSIG).
  void harm_all(std::uint64_t newest) {
    std::multimap<Clock::time_point, std::pair<std::size_t, bool>> kills;  // which victim, and whether once more
    for (std::size_t i = 0; i < victims_.size(); ++i) kills.emplace(Clock::now() + instant(span_ms_), std::pair(i, false));
    while (!kills.empty()) {
      auto [at, who] = *kills.begin();
      kills.erase(kills.begin());
      for (; Clock::now() < at; poll(nullptr, 0, 1)) watch(newest);
      auto [victim, again] = who;
      harm(victim, newest, again);
      // The second kill mostly hits a node that is just starting.
      if (!again && random_() % 4 == 0) kills.emplace(Clock::now() + instant(300), std::pair(victim, true));
    }
  }

  // What an undisturbed node needs, the seed included: instants are drawn from this.
  void watch(std::uint64_t newest) {
    if (arrived_ == newest || version_at(fleet_.current(undisturbed_)) != newest) return;
    arrived_ = newest;
    double took = std::chrono::duration<double, std::milli>(Clock::now() - began_).count();
    span_ms_ = std::clamp(0.8 * span_ms_ + 0.2 * took * 1.3, 50.0, 2000.0);
  }

  milliseconds instant(double span_ms) {
    return milliseconds(static_cast<int>(std::uniform_real_distribution<>(0, span_ms)(random_)));
  }

  void harm(std::size_t victim, std::uint64_t newest, bool again) {
    std::uint64_t before = checked_[victim];
    fleet_.kill(victims_[victim]);
    ++score_.rounds;
    if (!exact(victim, newest)) {
      ++score_.wrong_current;
    } else if (again) {
      ++score_.while_starting;
    } else {
      ++(checked_[victim] == before ? score_.while_fetching : score_.after_switch);
    }
    tell("killed " + victims_[victim] + " at version " + std::to_string(checked_[victim]));
    fleet_.start(victims_[victim]);
  }

  // Everybody comes to the version, exactly.
  bool finish(std::uint64_t version) {
    // Looks, not seconds: a machine that stands still for a while is no failure.
    constexpr int kLook = 2;
    int looks = options_.patience * 1000 / kLook;
    bool good = true;
    for (std::size_t i = 0; i <= victims_.size(); ++i) {
      const std::string& name = i == 0 ? undisturbed_ : victims_[i - 1];
      for (; version_at(fleet_.current(name)) != version && looks > 0; --looks) poll(nullptr, 0, kLook);
      if (i == 0) watch(version);
      if (version_at(fleet_.current(name)) == version && same_tree(contents_[version - 1], fleet_.current(name))) {
        tell(name + " is there");
        if (i > 0) checked_[i - 1] = version;
        continue;
      }
      say(name + " has not come to version " + std::to_string(version) + " exactly");
      say(fleet_.p2pw(name, {"status"}).out);
      std::string log = fleet_.p2pw(name, {"log"}).out;
      say(log.substr(log.size() > 4000 ? log.size() - 4000 : 0));
      ++score_.unfinished;
      good = false;
    }
    return good;
  }

  Options options_;
  Clock::time_point born_ = Clock::now();
  std::mt19937_64 random_;
  Fleet fleet_;
  std::vector<std::string> victims_;
  std::vector<std::uint64_t> checked_;  // by victim: the version that its `current` was last seen at
  std::vector<fs::path> contents_;      // by version
  const std::string undisturbed_ = "r1-1";
  Clock::time_point began_;
  std::uint64_t arrived_ = 0;
  double span_ms_ = 300;
  Score score_;
};

void report(const Options& options, const Score& score, double seconds) {
  if (options.json) {
    std::printf("{\"rounds\":%u,\"wrong_current\":%u,\"unfinished\":%u,\"seed\":%llu,\"versions\":%u,"
                "\"killed_before_switch\":%u,\"killed_after_switch\":%u,\"killed_while_starting\":%u,\"seconds\":%.1f}\n",
                score.rounds, score.wrong_current, score.unfinished, static_cast<unsigned long long>(options.seed),
                score.published, score.while_fetching, score.after_switch, score.while_starting, seconds);
  } else {
    std::printf("seed %llu: %u rounds over %u versions in %.0f s: %u with a wrong current, %u unfinished\n"
                "killed before the switch %u, after it %u, while starting %u\n",
                static_cast<unsigned long long>(options.seed), score.rounds, score.published, seconds,
                score.wrong_current, score.unfinished, score.while_fetching, score.after_switch, score.while_starting);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  options.seed = std::random_device()();
  CLI::App app("Kills node daemons at random instants while versions are published.\nExample: tests/crash --rounds 100");
  app.add_option("--rounds", options.rounds, "Kills")->capture_default_str();
  app.add_option("--seed", options.seed, "Same seed, same instants (the machine adds its own)");
  app.add_option("--victims", options.victims, "Nodes that are killed, at once")->check(CLI::Range(1, 50))->capture_default_str();
  app.add_option("--bytes", options.bytes, "Size of a checkpoint")->capture_default_str();
  app.add_option("--patience", options.patience, "Seconds for the nodes to come to a version")->capture_default_str();
  app.add_flag("--verbose", options.verbose, "Say when what happened");
  app.add_flag("--json", options.json, "Answer with one JSON object");
  CLI11_PARSE(app, argc, argv);

  auto began = Clock::now();
  if (!options.json) std::fprintf(stderr, "seed %llu\n", static_cast<unsigned long long>(options.seed));
  Crash crash(options);
  if (!crash.set_up()) {
    std::cerr << "the fleet did not come up\n" << crash.fleet().logs();
    return 1;
  }
  bool good = true;
  while (good && crash.score().rounds < options.rounds) {
    good = crash.batch();
    if (!options.json && crash.score().published % 20 == 0) std::fprintf(stderr, "%u rounds\n", crash.score().rounds);
  }
  const Score& score = crash.score();
  if (score.wrong_current + score.unfinished > 0) std::cerr << crash.fleet().logs();
  report(options, score, std::chrono::duration<double>(Clock::now() - began).count());
  return good && score.wrong_current == 0 && score.unfinished == 0 ? 0 : 1;
}
