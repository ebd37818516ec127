// simulations/fleet: thousands of nodes on a virtual clock. README.md in simulations says more.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "simulations/src/fleet/baselines.h"
#include "simulations/src/fleet/control.h"
#include "simulations/src/fleet/lab.h"
#include "simulations/src/fleet/p2pw_run.h"

namespace {

using namespace p2pw::fleet;

struct Options {
  std::string name, strategy, lab_file;
  bool json = false, own = false, unstated = false, list = false, tell_all = false;
  std::uint64_t seed = 1;
  std::size_t versions = 0, regions = 0;
  double price = -1, cores = 2;
};

int usage_error(const std::string& what) {
  std::fprintf(stderr, "simulations/fleet: %s\n", what.c_str());
  return 2;
}

void print_head(const Scenario& s, const Options& options) {
  std::printf("%s: %s\n%zu nodes, %zu versions of %.3g GiB, seed %llu%s\n", s.name.c_str(), s.about.c_str(), s.node_count(),
              s.versions, s.delta_bytes / kGiB, static_cast<unsigned long long>(options.seed),
              options.own ? ", every strategy with its own codec and anchors" : "");
  std::printf("%-14s %9s %9s %9s %9s %11s %11s %10s %10s\n", "strategy", "bound s", "last s", "p95 s", "median s",
              "WAN copies", "out copies", "$/step", "stale p95");
}

void print_row(const Outcome& o, const Summary& sum) {
  std::printf("%-14s %9.2f %9.2f %9.2f %9.2f %11.3f %11.3f %10.4f %10.2f\n", o.strategy.c_str(), sum.bound_seconds,
              sum.last_node_seconds, sum.p95_seconds, sum.median_seconds, sum.cross_region_copies, sum.trainer_copies,
              sum.dollars_per_step, sum.staleness_p95);
}

int run_scenario(Scenario s, const Options& options) {
  if (!options.json) print_head(s, options);
  for (const std::string& strategy : strategy_names()) {
    if (!options.strategy.empty() && options.strategy != strategy) continue;
    auto begin = std::chrono::steady_clock::now();
    Outcome outcome = strategy == "p2pw" ? P2pwRun(s, options.seed).run()
                                         : run_baseline(s, strategy, options.seed, options.own);
    Summary summary = summarize(s, outcome);
    if (options.json) {
      std::printf("%s\n", to_json(s, outcome, summary, options.seed).c_str());
    } else {
      print_row(outcome, summary);
    }
    std::fflush(stdout);
    if (strategy == "p2pw") {
      double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      std::fprintf(stderr, "%zu nodes, %zu versions: %llu events in %.1f s; seed %llu\n", s.node_count(), s.versions,
                   static_cast<unsigned long long>(outcome.events), took, static_cast<unsigned long long>(options.seed));
    }
  }
  return 0;
}

int compare_with_lab(const Options& options) {
  std::ifstream file(options.lab_file);
  std::string line, last;
  while (std::getline(file, line)) {
    if (!line.empty()) last = line;
  }
  auto lab = read_lab_run(last);
  if (!lab.ok()) return usage_error(options.lab_file + ": " + lab.error().message);
  auto scenario = find_scenario(lab->scenario);
  if (!scenario) return usage_error("no scenario " + lab->scenario + " here; see --list");
  Scenario calibrated = as_in_lab(*scenario, *lab, options.cores);
  Outcome outcome = P2pwRun(calibrated, options.seed).run();
  Summary sum = summarize(calibrated, outcome);
  nlohmann::ordered_json j;
  j["scenario"] = lab->scenario;
  j["lab_last_node_seconds"] = lab->last_node_seconds;
  j["fleet_last_node_seconds"] = sum.last_node_seconds;
  j["difference"] = sum.last_node_seconds / lab->last_node_seconds - 1;
  j["lab_trainer_copies"] = lab->trainer_copies;
  j["fleet_trainer_copies"] = sum.trainer_copies;
  for (auto& region : sum.regions) j["fleet_copies"][region.name] = region.copies;
  j["lab_copies"] = lab->copies;
  std::printf("%s\n", j.dump(options.json ? -1 : 2).c_str());
  return 0;
}

int run_control(const Options& options) {
  if (!options.json) print_control_head();
  for (std::size_t nodes : {50, 500, 5000, 50000}) {
    ControlSetting setting;
    setting.nodes = nodes;
    setting.tell_all = options.tell_all;
    if (options.regions) setting.most_regions = options.regions;
    ControlCosts costs = control_costs(setting, options.seed);
    options.json ? (void)std::printf("%s\n", to_json(costs).c_str()) : print_row(costs);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Thousands of simulated nodes that run p2pw's own decisions, beside other ways to spread a version."};
  app.add_option("scenario", options.name, "one of --list, or \"control\": what control costs as the fleet grows");
  app.add_flag("--list", options.list, "the scenarios, a line each");
  app.add_flag("--json", options.json, "one JSON object for each strategy");
  app.add_option("--seed", options.seed, "of everything random");
  app.add_option("--strategy", options.strategy, "only this one");
  app.add_option("--versions", options.versions, "so many instead of the scenario's");
  app.add_option("--dollars-per-gb", options.price, "between regions, for 10^9 bytes");
  app.add_flag("--own", options.own, "every strategy with its own codec and anchors, not all with the same bytes");
  app.add_flag("--rates-unstated", options.unstated, "nobody says that its access is slow");
  app.add_option("--most-regions", options.regions, "control: larger fleets have larger regions");
  app.add_flag("--tell-all", options.tell_all, "control: as if every hub told everybody everything");
  app.add_option("--lab", options.lab_file, "compare with a run of simulations/lab: a file with what it printed");
  app.add_option("--cores", options.cores, "of the machine that ran the lab");
  CLI11_PARSE(app, argc, argv);
  if (options.list) {
    for (const std::string& name : scenario_names()) std::printf("%-16s %s\n", name.c_str(), find_scenario(name)->about.c_str());
    std::printf("%-16s what control costs each kind of daemon, 50 to 50,000 nodes\n", "control");
    return 0;
  }
  if (!options.lab_file.empty()) return compare_with_lab(options);
  if (options.name == "control") return run_control(options);
  auto names = strategy_names();
  if (!options.strategy.empty() && std::find(names.begin(), names.end(), options.strategy) == names.end()) {
    return usage_error("no strategy " + options.strategy);
  }
  auto scenario = find_scenario(options.name);
  if (!scenario) return usage_error("no scenario \"" + options.name + "\"; see --list");
  if (options.versions) scenario->versions = options.versions;
  if (options.price >= 0) scenario->dollars_per_gb = options.price;
  scenario->rates_stated = !options.unstated;
  return run_scenario(std::move(*scenario), options);
}
