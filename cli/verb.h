// How a verb of `p2pw` is made. One file per verb; the file registers itself, so that adding a verb changes no other file:
//
//   Run add_wait(CLI::App& verb) {
//     auto options = std::make_shared<Options>();
//     verb.add_option("--channel", options->channel, "...")->required();
//     return [options](Console& console) -> Status { ... console.answer(json, text); return {}; };
//   }
//   const VerbRegistration kWait({"wait", VerbGroup::fleet, "Wait until ...", "p2pw wait --channel c --version 7", add_wait});
//
// The frame (main.cpp) gives every verb --json, --quiet, --config and --state, parses, calls the function, prints its
// error and exits by exit_code_of().
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "cli/console.h"
#include "protocol/result.h"

namespace CLI {
class App;
}

namespace p2pw {

enum class VerbGroup { setup, publish, fleet, checkpoint, operate };  // headings of `p2pw --help`, in this order

using Run = std::function<Status(Console&)>;

struct Verb {
  std::string_view name;
  VerbGroup group = VerbGroup::operate;
  std::string_view summary;  // one line
  std::string_view example;  // one or more command lines; stands first in the verb's help
  Run (*add)(CLI::App& verb) = nullptr;
};

class VerbRegistration {
 public:
  explicit VerbRegistration(const Verb& verb);
};

const std::vector<Verb>& all_verbs();  // by group, then by name

// SIGINT and SIGTERM set a flag from now on instead of ending the process; blocking system calls return EINTR. A verb that
// leaves something behind when it is killed calls catch_interrupts() first, asks interrupted() between steps, cleans up
// and returns ErrorCode::interrupted.
void catch_interrupts();
bool interrupted();

}  // namespace p2pw
