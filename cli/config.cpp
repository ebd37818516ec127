#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/verb.h"
#include "daemon/client/config.h"

namespace p2pw {
namespace {

Status config(Console& console) {
  P2PW_TRY(Config found, console.config());
  std::string text = to_toml(found);
  console.answer({{"config", found.file.string()},
                  {"state", found.state.string()},
                  {"api_socket", found.api_socket().string()},
                  {"effective", text}},
                 text);
  return {};
}

Run add_config(CLI::App&) { return config; }

const VerbRegistration kConfig({"config", VerbGroup::operate, "Check the configuration and print every value in force.",
                                "p2pw config --config /etc/p2pw/p2pw.toml", add_config});

}  // namespace
}  // namespace p2pw
