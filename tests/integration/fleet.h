// A fleet of real daemons on loopback addresses, for tests: 127.A.R.N stands for node N of region R, where A is this
// fleet's own. Everything that was started is stopped, by its own process id, when the Fleet goes.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "daemon/client/config.h"
#include "tests/support/temp_dir.h"

namespace p2pw::testing {

struct Ran {
  int exit_code = -1;
  nlohmann::json json;  // of the last line of standard output; null when it is none
  std::string out, err;
};

// A program that runs: killed and reaped with this object.
class Process {
 public:
  Process() = default;
  Process(const std::vector<std::string>& command, const std::filesystem::path& log);
  ~Process();
  Process(Process&& other) noexcept { std::swap(pid_, other.pid_); }
  Process& operator=(Process&& other) noexcept {
    std::swap(pid_, other.pid_);
    return *this;
  }
  void signal(int number) const;
  int wait();  // exit code, or 128 + signal
  bool running() const { return pid_ > 0; }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
};

// Runs to its end, at most `seconds`.
Ran run(const std::vector<std::string>& command, int seconds = 120);

class Fleet {
 public:
  Fleet();

  // `change`: of its configuration, before it starts.
  void start_trainer(const std::function<void(Config&)>& change = nullptr);
  // Joins, with the trainer's token, and starts.
  void start_node(const std::string& region, int number, const std::function<void(Config&)>& change = nullptr);
  // Changes the configuration of a daemon that does not run.
  void configure(const std::string& name, const std::function<void(Config&)>& change);
  void start(const std::string& name);  // again, after a kill
  void kill(const std::string& name);   // SIGKILL
  void stop_all();

  // A verb of p2pw for one daemon, with --json.
  Ran p2pw(const std::string& daemon, std::vector<std::string> arguments, int seconds = 120);
  std::vector<std::string> p2pw_command(const std::string& daemon, std::vector<std::string> arguments);
  Ran seed(const std::filesystem::path& checkpoint, std::vector<std::string> more = {});
  // Until the trainer has heard of so many followers, itself included; their number.
  std::size_t wait_joined(std::size_t nodes, int seconds = 60);
  // Until all live nodes serve the version; their number.
  std::size_t wait_active(std::uint64_t version, std::size_t nodes, int seconds = 60, const std::string& channel = "policy");
  // `p2pw channel add` and a restart; on the trainer first.
  void add_channel(const std::string& daemon, const std::string& channel);

  std::filesystem::path current(const std::string& name, const std::string& channel = "policy") const;
  std::filesystem::path folder(const std::string& name) const { return dir_ / name; }
  std::vector<std::string> nodes() const;  // names, the trainer last
  // Payload bytes written into each region over links by all daemons that can be asked, by version.
  std::map<std::string, std::uint64_t> payload_into(std::uint64_t version);
  std::uint64_t used_bytes(std::uint64_t version);
  const std::filesystem::path& path() const { return dir_.path(); }
  int net() const { return net_; }  // second octet of all addresses
  std::string address(const std::string& region, int number);
  const std::string& token() const { return token_; }
  pid_t pid(const std::string& name) const { return daemons_.at(name).pid(); }
  // The process that runs its swarm; 0: there is none now.
  pid_t swarm_pid(const std::string& name) const;
  std::string logs() const;  // the ends of all logs, for a failed test

 private:
  TempDir dir_;
  int net_ = 0;
  std::string token_;
  std::map<std::string, int> regions_;
  std::map<std::string, Process> daemons_;
};

// Checkpoints OUT/step_0000 and so on.
std::filesystem::path make_series(const std::filesystem::path& out, const std::string& bytes, int steps,
                                  std::vector<std::string> more = {});
// The same files with the same bytes.
bool same_tree(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace p2pw::testing
