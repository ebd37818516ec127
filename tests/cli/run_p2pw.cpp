#include "tests/cli/run_p2pw.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace p2pw::testing {

std::string read_all(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

P2pw::P2pw(const std::vector<std::string>& arguments, const std::string& input) {
  std::ofstream(dir_ / "in") << input;
  std::vector<std::string> words = {std::string(P2PW_BIN_DIR) + "/p2pw"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::string path = "PATH=/usr/bin:/bin";
  char* environment[] = {path.data(), nullptr};
  std::string in = dir_ / "in", out = dir_ / "out", err = dir_ / "err";
  pid_ = fork();
  if (pid_ != 0) return;
  const char* files[] = {in.c_str(), out.c_str(), err.c_str()};
  for (int i = 0; i < 3; ++i) dup2(open(files[i], i == 0 ? O_RDONLY : O_WRONLY | O_CREAT, 0600), i);
  execve(argv[0], argv.data(), environment);
  _exit(127);
}

P2pw::~P2pw() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void P2pw::signal(int number) { kill(pid_, number); }

Ran P2pw::wait() {
  int status = 0;
  EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
  pid_ = -1;
  Ran ran;
  ran.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  ran.out = read_all(dir_ / "out");
  ran.err = read_all(dir_ / "err");
  return ran;
}

}  // namespace p2pw::testing
