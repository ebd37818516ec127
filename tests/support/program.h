// Runs one of our programs to its end and keeps what it said.
#pragma once

#include <string>
#include <vector>

namespace p2pw::testing {

struct ProgramResult {
  int exit_code = -1;
  std::string out, err;
};

// `program` is the name of a binary of this build ("p2pw"). No shell takes part.
ProgramResult run_program(const std::string& program, const std::vector<std::string>& arguments);

}  // namespace p2pw::testing
