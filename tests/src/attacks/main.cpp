// p2pw-attacks: tries attacks on real daemons on loopback and tells the result of each. SECURITY.md has the list.
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "tests/src/attacks/stage.h"

namespace p2pw::attacks {
namespace {

void print(const std::string& name, const Outcome& outcome, bool json) {
  if (json) {
    std::printf("%s\n", nlohmann::json{{"attack", name}, {"refused", outcome.refused}, {"effect", outcome.effect}}
                            .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
                            .c_str());
  } else {
    std::printf("%-8s %s\n         %s\n", outcome.refused ? "refused" : "OPEN", name.c_str(), outcome.effect.c_str());
  }
  std::fflush(stdout);
}

int run(const std::vector<std::string>& only, bool json) {
  std::vector<Attack> all;
  add_outsiders(all);
  add_enrolment(all);
  add_insiders(all);
  add_record_attacks(all);
  add_swarm_attacks(all);
  add_swarm_process(all);
  add_local(all);
  Stage stage;
  std::string why;
  if (!stage.up(why)) {
    std::fprintf(stderr, "%s\n", why.c_str());
    return 1;
  }
  int open = 0;
  for (const Attack& attack : all) {
    const bool wanted = only.empty() || std::any_of(only.begin(), only.end(), [&](const std::string& part) {
      return attack.name.find(part) != std::string::npos;
    });
    if (!wanted) continue;
    Outcome outcome = attack.run(stage);
    if (!stage.healthy(why)) outcome = {false, outcome.effect + "; " + why};
    open += !outcome.refused;
    print(attack.name, outcome, json);
  }
  if (open > 0) std::fprintf(stderr, "%d attacks were not refused\n%s", open, stage.fleet().logs().c_str());
  return open > 0 ? 1 : 0;
}

}  // namespace
}  // namespace p2pw::attacks

int main(int argc, char** argv) {
  CLI::App app("Tries attacks on a fleet of real daemons on loopback, from outside and inside, and tells what became of each.\n"
               "Ends with 1 when one was not refused.\nExample: tests/attacks --json");
  bool json = false;
  std::vector<std::string> only;
  app.add_flag("--json", json, "One JSON object an attack: attack, refused, effect");
  app.add_option("--only", only, "Only attacks whose name holds one of these");
  CLI11_PARSE(app, argc, argv);
  spdlog::set_level(spdlog::level::off);  // of the peers in this process
  return p2pw::attacks::run(only, json);
}
