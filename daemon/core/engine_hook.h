// What the daemon needs of an inference engine: whether it is there, that it loads a checkpoint, and what it says it serves.
//
// Threads: control thread only. Answers come later than the call returns, at most once, on the control thread.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "protocol/ids.h"
#include "protocol/result.h"

namespace p2pw {

// A complete checkpoint that the engine is to serve, or is asked about.
struct EngineTarget {
  Channel channel;
  Version version;
  Version previous;                  // what it served before, for sparse hand-overs; 0 = not known
  std::filesystem::path checkpoint;  // the slot's own folder, no link
  std::optional<bool> flush;         // overrides the configured choice for this load only
};

// How a load ended, as far as the engine said so.
struct LoadResult {
  enum class Kind {
    loaded,     // it says that it loaded the checkpoint and goes on
    untouched,  // it was not told to load, or never heard of it: the weights are those from before
    refused,    // it answered that it failed; it may hold a part of the new weights
    unsure,     // no answer, or it may still be paused
  };
  Kind kind = Kind::unsure;
  Error error;  // unless loaded
  std::chrono::microseconds paused{0};   // from sending pause to sending continue; 0 = it was not paused
  std::chrono::microseconds loading{0};  // of that, between sending the update and the engine's answer
};

// What an engine says of itself.
struct EngineReport {
  std::string version;     // its label; the daemon writes the version in decimal
  std::string checkpoint;  // the folder that it loaded last; empty = it does not say
};

class EngineHook {
 public:
  using Answer = std::function<void(Status)>;
  using Loaded = std::function<void(LoadResult)>;
  using Report = std::function<void(Result<EngineReport>)>;
  virtual ~EngineHook() = default;

  // Is it there, and would it listen? Nothing changes. Errors: unreachable (nobody listens: it is gone), timed_out, failed.
  virtual void prepare(const EngineTarget& target, Answer answer) = 0;
  // Pause, load, continue. An engine that may have been paused is always told to continue.
  virtual void load(const EngineTarget& target, Loaded loaded) = 0;
  // What it serves now. Errors as prepare().
  virtual void ask(Report report) = 0;
  // False: there is nothing to ask; its answer to load() is all it says.
  virtual bool can_tell() const = 0;
};

// The engine's own words agree with the target: the version, and the folder where it names one.
bool agrees(const EngineReport& report, const EngineTarget& target);

}  // namespace p2pw
