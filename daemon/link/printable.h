// A peer's words for a log line or a message: short, and without anything that a terminal would obey.
#pragma once

#include <algorithm>
#include <string>

namespace p2pw {

inline std::string printable(std::string text) {
  text.resize(std::min<std::size_t>(text.size(), 160));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  return text;
}

}  // namespace p2pw
