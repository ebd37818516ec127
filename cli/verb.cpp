#include "cli/verb.h"

#include <algorithm>
#include <csignal>
#include <tuple>

namespace p2pw {
namespace {

volatile std::sig_atomic_t caught_signal = 0;

std::vector<Verb>& registry() {
  static std::vector<Verb> verbs;
  return verbs;
}

}  // namespace

VerbRegistration::VerbRegistration(const Verb& verb) {
  registry().push_back(verb);
  std::sort(registry().begin(), registry().end(),
            [](const Verb& a, const Verb& b) { return std::tie(a.group, a.name) < std::tie(b.group, b.name); });
}

const std::vector<Verb>& all_verbs() { return registry(); }

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = [](int number) { caught_signal = number; };
  sigemptyset(&action.sa_mask);  // no SA_RESTART: blocking calls return
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() { return caught_signal != 0; }

}  // namespace p2pw
