// What a verb says, and to whom. Standard output carries the answer and nothing else: text for people, or with --json one
// JSON object (JSON lines for long work), errors included. Standard error carries the conversation: notes, progress and
// errors for people; --quiet leaves only errors there. A progress bar is drawn only on a terminal; elsewhere one line
// every ten seconds.
//
// One thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/result.h"

namespace p2pw {

struct Config;

// What the frame read from the command line for every verb.
struct ConsoleOptions {
  bool json = false;
  bool quiet = false;
  std::string config;  // --config, empty = not given
  std::string state;   // --state, overrides the configuration's
};

class Console {
 public:
  // `terminal`: standard error is one, so progress is drawn there. Tests pass their own streams.
  Console(ConsoleOptions options, std::ostream& out, std::ostream& err, bool terminal);
  static Console standard(ConsoleOptions options);

  bool json() const { return options_.json; }
  bool quiet() const { return options_.quiet; }
  const ConsoleOptions& options() const { return options_; }

  // The answer: `object` on one line with --json, else `text` (a newline is added where it lacks one; empty prints
  // nothing).
  void answer(const nlohmann::ordered_json& object, std::string_view text);
  // A step of long work: a JSON line with --json, else nothing (use note() or progress() for people).
  void event(const nlohmann::ordered_json& object);
  // For people; silent with --quiet.
  void note(std::string_view line);
  // Bytes done of bytes in all (0 = not known). Cheap: call it as often as you like. Ends with done == total or finish().
  void progress(std::string_view label, std::uint64_t done, std::uint64_t total);
  // The same for things that are few: nodes.
  void count(std::string_view label, std::uint64_t done, std::uint64_t total);
  void finish();  // wipes an unfinished bar

  // What there is of the answer when the verb fails after all, for example by a time-out: fail() adds it to its object.
  void partial(const nlohmann::ordered_json& object);

  // {"error": {"code", "message", "exit"}} on standard output with --json; "p2pw: message" on standard error, with what to do
  // next. Returns
  // the exit code.
  int fail(const Error& error);

  // The configuration that the user means: --config, $P2PW_CONFIG or the default, with --state put in. With --state alone
  // and no file at the default path, a Config with that state folder only. Error: not_found with what to do, config.
  Result<Config> config() const;

 private:
  enum class Unit { bytes, things };
  void show(std::string_view label, std::uint64_t done, std::uint64_t total, Unit unit);
  void draw_bar(std::string_view label, std::uint64_t done, std::uint64_t total, Unit unit);
  void wipe_bar();

  ConsoleOptions options_;
  std::ostream* out_;
  std::ostream* err_;
  bool terminal_;
  bool bar_drawn_ = false;
  std::chrono::steady_clock::time_point started_{}, last_drawn_{};
  std::string bar_label_;
  std::string partial_;  // a JSON object, or empty
};

// "1.2 GB", "34 kB": decimal units, as in network rates.
std::string human_bytes(std::uint64_t bytes);
std::string human_seconds(double seconds);

}  // namespace p2pw
