// What the verbs that work on checkpoint files have in common.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

#include "chunker/delta_file.h"
#include "cli/verb.h"

namespace p2pw {

// A progress bar that any thread may move.
class SharedProgress {
 public:
  SharedProgress(Console& console, std::string label, std::uint64_t total)
      : console_(console), label_(std::move(label)), total_(total) {}
  ~SharedProgress() { console_.finish(); }
  void at_least(std::uint64_t done);

 private:
  Console& console_;
  std::string label_;
  std::uint64_t total_;
  std::mutex mutex_;
  std::uint64_t done_ = 0;
};

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// "verified", "unsigned" or "not checked"; with `publisher` (a key, or the file that holds one) anything but "verified"
// is an error.
Result<std::string> check_publisher(const DeltaFile& delta, const std::string& publisher);

Result<SigningKey> read_signing_key(const std::string& path);

// 1234567 -> "1,234,567".
std::string grouped(std::uint64_t number);

}  // namespace p2pw
