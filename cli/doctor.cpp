#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/daemon_access.h"
#include "cli/doctor_checks.h"
#include "cli/verb.h"
#include "daemon/client/clock.h"

namespace p2pw {
namespace {

using doctor::Finding;
using doctor::Findings;
using doctor::Verdict;

// The third number of net.ipv4.tcp_rmem and its sibling; no limit known when the file cannot be read.
std::uint64_t buffer_maximum(const char* file) {
  std::ifstream in(file);
  std::uint64_t low = 0, usual = 0, high = 0;
  return in >> low >> usual >> high ? high : UINT64_MAX;
}

void check_daemon(const Config& config, bool quick, Findings& findings) {
  ApiClient daemon(config.api_socket(), interrupted);
  auto status = daemon.status();
  doctor::check_ports(config, status.ok(), findings);
  if (status) doctor::check_reachable(config, interrupted, findings);
  if (!status) {
    findings.push_back({"daemon", Verdict::bad, status.error().message, "systemctl start p2pwd; journalctl -u p2pwd tells why it stopped"});
    return;
  }
  findings.push_back({"daemon", Verdict::good, "p2pwd " + status->software + " answers at " + config.api_socket().string(), ""});
  doctor::check_channels(*status, findings);
  doctor::check_mirror(*status, findings);
  doctor::check_swarm(*status, findings);
  doctor::check_clocks(*status, findings);
  if (auto peers = daemon.peers()) doctor::check_peers(config, *peers, interrupted, findings);
  if (!quick) doctor::check_active_slots(*status, interrupted, findings);
  doctor::check_buffers(*status, buffer_maximum("/proc/sys/net/ipv4/tcp_rmem"),
                        buffer_maximum("/proc/sys/net/ipv4/tcp_wmem"), findings);
}

std::string text_of(const Findings& findings) {
  std::string text;
  for (const Finding& f : findings) {
    std::string verdict(doctor::name_of(f.verdict));
    verdict.resize(9, ' ');
    text += verdict + f.what + ": " + f.detail + "\n";
    if (!f.remedy.empty()) text += "         -> " + f.remedy + "\n";
  }
  return text;
}

Status doctor_verb(bool quick, Console& console) {
  P2PW_TRY(Config config, console.config());
  catch_interrupts();
  Findings findings;
  findings.push_back({"configuration", Verdict::good, config.file.empty() ? "only a state folder is given" : config.file.string(), ""});
  doctor::check_keys(config, wall_clock(), findings);
  doctor::check_state_folder(config, findings);
  doctor::check_room(config, findings);
  doctor::check_bootstrap(config, interrupted, findings);
  doctor::check_hooks(config, interrupted, findings);
  check_daemon(config, quick, findings);
  if (interrupted()) return fail(ErrorCode::interrupted, "interrupted");
  if (::geteuid() != 0) doctor::excuse_user(findings);

  auto bad = std::count_if(findings.begin(), findings.end(), [](const Finding& f) { return f.verdict == Verdict::bad; });
  Json list = Json::array();
  for (const Finding& f : findings) {
    list.push_back({{"what", f.what}, {"verdict", doctor::name_of(f.verdict)}, {"detail", f.detail}, {"remedy", f.remedy}});
  }
  Json object = {{"ok", bad == 0}, {"checks", list}};
  if (bad == 0) {
    console.answer(object, text_of(findings));
    return {};
  }
  if (!console.json()) console.answer({}, text_of(findings));
  console.partial(object);
  return fail(ErrorCode::failed, std::to_string(bad) + " of " + std::to_string(findings.size()) + " checks failed; each names its remedy above");
}

Run add_doctor(CLI::App& verb) {
  auto quick = std::make_shared<bool>(false);
  verb.add_flag("--quick", *quick, "Do not read the active checkpoints through");
  return [quick](Console& console) { return doctor_verb(*quick, console); };
}

const VerbRegistration kDoctor({"doctor", VerbGroup::operate, "Look for what is wrong on this machine and say what to do.",
                                "p2pw doctor", add_doctor});

}  // namespace
}  // namespace p2pw
