// Runs the real p2pw and catches what it says.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

namespace p2pw::testing {

struct Ran {
  int exit_code = -1;
  std::string out, err;
};

class P2pw {
 public:
  // Starts it with an empty environment apart from PATH, and `input` on standard input.
  explicit P2pw(const std::vector<std::string>& arguments, const std::string& input = "");
  ~P2pw();
  P2pw(const P2pw&) = delete;
  void signal(int number);
  Ran wait();

 private:
  TempDir dir_;
  pid_t pid_ = -1;
};

inline Ran run_p2pw(const std::vector<std::string>& arguments, const std::string& input = "") {
  return P2pw(arguments, input).wait();
}

std::string read_all(const std::filesystem::path& file);

}  // namespace p2pw::testing
