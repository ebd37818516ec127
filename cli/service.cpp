#include "cli/service.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "daemon/client/paths.h"

namespace p2pw::service {
namespace {

constexpr const char* kByHand = "p2pwd --config /etc/p2pw/p2pw.toml, as user p2pw";

// Its exit code; 128 and more for a signal. Error: it cannot be run.
Result<int> run_systemctl(std::vector<const char*> words) {
  words.insert(words.begin(), "systemctl");
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO,
                                   STDOUT_FILENO);  // standard output is for the token
  pid_t pid = -1;
  int error = posix_spawnp(&pid, words[0], &actions, nullptr, const_cast<char* const*>(words.data()), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return fail(ErrorCode::failed, std::strerror(error));
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return fail(ErrorCode::failed, std::strerror(errno));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

Status systemctl(const std::vector<const char*>& words, const char* done) {
  std::string typed = "systemctl";
  for (const char* word : words) typed += std::string(" ") + word;
  auto code = run_systemctl(words);
  if (!code) {
    return fail(ErrorCode::failed, std::string(done) + " systemctl cannot be run (" + code.error().message +
                                       "); start the daemon by hand: " + kByHand);
  }
  if (*code != 0) {
    return fail(ErrorCode::failed, std::string(done) + " `" + typed + "` ended with " + std::to_string(*code) +
                                       ": journalctl -u p2pwd tells why; by hand: " + kByHand);
  }
  return {};
}

}  // namespace

Status can_start(const Config& config, const std::string& option) {
  if (config.file != kDefaultConfigFile) {
    return fail(ErrorCode::usage, option + " starts the service, which reads " + kDefaultConfigFile + "; leave " + option +
                                      " out and type: p2pwd --config " + config.file.string());
  }
  if (::geteuid() != 0) return fail(ErrorCode::usage, option + " needs root: type it again with sudo");
  return {};
}

Status start() { return systemctl({"enable", "--now", "p2pwd"}, "this machine is set up, but"); }

Status restart() { return systemctl({"restart", "p2pwd"}, "the channel is added, but"); }

}  // namespace p2pw::service
