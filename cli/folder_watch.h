// Finds finished checkpoints below a folder that a trainer writes into: for `p2pw seed --watch`.
//
// A subfolder is finished when all of this holds:
// - its name does not begin with "." or "tmp", nor end with ".tmp" (trainers rename when they are done);
// - it reads strictly as a checkpoint: every safetensors file has the length that its header says, and every file that an
//   index names is there (a file that is being written has its header first and is too short);
// - nothing in it (names, sizes, times of change) has changed for the settle time; or, when a marker is asked for, it
//   holds a file of that name.
//
// Looks at the disk and nothing else; the clock is handed in.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace p2pw {

class FolderWatch {
 public:
  using Clock = std::chrono::steady_clock;
  struct Options {
    std::filesystem::path root;
    std::chrono::milliseconds settle{3000};
    std::string marker;  // empty: none
    bool existing = false;  // also what is finished at the first look
    // Whether the folder reads as a checkpoint.
    std::function<bool(const std::filesystem::path&)> readable;
  };
  explicit FolderWatch(Options options) : options_(std::move(options)) {}

  // Finished folders that were not given out before, oldest first: by the last number in their names, then by name.
  std::vector<std::filesystem::path> look(Clock::time_point now);
  // Gives it out again at the next look: it could not be published for now.
  void again(const std::filesystem::path& folder) { given_.erase(folder.filename().string()); }

 private:
  struct Seen {
    std::string content;  // names, sizes, times
    Clock::time_point since;
  };
  bool finished(const std::filesystem::path& folder, Clock::time_point now);

  Options options_;
  std::map<std::string, Seen> seen_;
  std::set<std::string> given_;
  bool first_ = true;
};

// "checkpoint-1200", "step_0012": the last number in a name; nothing when there is none.
std::optional<std::int64_t> number_in_name(const std::string& name);

}  // namespace p2pw
