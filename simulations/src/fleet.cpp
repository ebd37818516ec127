// simulations/fleet: thousands of nodes on a virtual clock. README.md in simulations says more.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>

#include "simulations/src/fleet/p2pw_run.h"

int main(int argc, char** argv) {
  using namespace p2pw::fleet;
  std::string name = argv[1];
  auto scenario = find_scenario(name);
  if (argc > 2) scenario->versions = static_cast<std::size_t>(atoi(argv[2]));
  auto begin = std::chrono::steady_clock::now();
  Outcome o = P2pwRun(*scenario, 1).run();
  double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  Summary sum = summarize(*scenario, o);
  std::printf("%s\n", to_json(*scenario, o, sum, 1).c_str());
  std::fprintf(stderr, "%.2f s, %llu events\n", took, (unsigned long long)o.events);
}
