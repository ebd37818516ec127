#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/daemon_access.h"
#include "cli/verb.h"

namespace p2pw {
namespace {

Status dashboard(Console& console) {
  P2PW_TRY(Config config, daemon_config(console));
  if (config.api.http_address.empty()) {
    return fail(ErrorCode::not_found, "this daemon serves no dashboard: add to " + config.file.string() +
                                          "\n[api]\nhttp = \"127.0.0.1:4712\"\ntoken = \"at least 16 characters of your own\"\n"
                                          "and restart it (systemctl restart p2pwd)");
  }
  bool six = config.api.http_address.find(':') != std::string::npos;
  std::string host = (six ? "[" + config.api.http_address + "]" : config.api.http_address) + ":" + std::to_string(config.api.http_port);
  std::string url = "http://" + host + "/#token=" + config.api.token;
  console.note("From another machine: ssh -L " + std::to_string(config.api.http_port) + ":" + host + " this-machine, then open it there.");
  console.answer({{"url", url}}, url);
  return {};
}

Run add_dashboard(CLI::App&) { return dashboard; }

const VerbRegistration kDashboard({"dashboard", VerbGroup::fleet, "Print the address of this daemon's web page, token included.",
                                   "p2pw dashboard", add_dashboard});

}  // namespace
}  // namespace p2pw
