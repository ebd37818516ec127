// The frame around the verbs: the command line's grammar, help texts, errors and exit codes. Apart from main() so that
// tests and `completion` can build the same tree.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "cli/verb.h"

namespace p2pw {

struct CommandLine {
  std::unique_ptr<CLI::App> app;
  std::shared_ptr<ConsoleOptions> options;
  std::map<std::string, Run> runs;  // by verb

  CommandLine();
  ~CommandLine();
};

// Parses, runs the verb, prints its error. Returns the exit code of the process.
int run_command_line(int argc, const char* const* argv);

}  // namespace p2pw
