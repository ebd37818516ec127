#include "tests/support/program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include "tests/support/checkpoint.h"
#include "tests/support/temp_dir.h"

extern char** environ;

namespace p2pw::testing {

ProgramResult run_program(const std::string& program, const std::vector<std::string>& arguments) {
  TempDir dir;
  const std::string path = std::string(P2PW_BIN_DIR) + "/" + program;
  const std::string out = dir / "out", err = dir / "err";
  std::vector<char*> argv{const_cast<char*>(path.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, 1, out.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&files, 2, err.c_str(), O_WRONLY | O_CREAT, 0600);
  pid_t pid = 0;
  ProgramResult result;
  if (posix_spawn(&pid, path.c_str(), &files, nullptr, argv.data(), environ) == 0) {
    int status = 0;
    waitpid(pid, &status, 0);
    result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  posix_spawn_file_actions_destroy(&files);
  result.out = read_text(out);
  result.err = read_text(err);
  return result;
}

}  // namespace p2pw::testing
