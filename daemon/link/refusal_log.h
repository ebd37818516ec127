// Log lines that strangers can cause: so many in a window, then only their number.
#pragma once

#include <spdlog/spdlog.h>

#include <chrono>
#include <string>

#include "protocol/result.h"

namespace p2pw {

class RefusalLog {
 public:
  static constexpr std::chrono::seconds kWindow{10};
  static constexpr int kLines = 20;

  void note(const std::string& who, const Error& reason) {
    const auto now = std::chrono::steady_clock::now();
    if (now - since_ > kWindow) {
      if (silent_ > 0) spdlog::warn("links: {} more refusals", silent_);
      since_ = now;
      lines_ = 0;
      silent_ = 0;
    }
    if (lines_ >= kLines) {
      ++silent_;
      return;
    }
    ++lines_;
    spdlog::warn("links: refused a connection from {}: {}", who, reason.message);
  }

 private:
  std::chrono::steady_clock::time_point since_{};
  int lines_ = 0;
  std::uint64_t silent_ = 0;
};

}  // namespace p2pw
