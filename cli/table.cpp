#include "cli/table.h"

#include <cstdint>
#include <cstdio>

namespace p2pw {

Table::Table(std::vector<std::string> headings) : headings_(std::move(headings)) {
  for (std::string& heading : headings_) {
    right_.push_back(heading.starts_with('>'));
    if (right_.back()) heading.erase(0, 1);
  }
}

void Table::row(std::vector<std::string> cells) {
  cells.resize(headings_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::text(const std::string& indent) const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < headings_.size(); ++i) {
    std::size_t width = headings_[i].size();
    for (const auto& cells : rows_) width = std::max(width, cells[i].size());
    widths.push_back(width);
  }
  std::string out;
  auto line = [&](const std::vector<std::string>& cells) {
    std::string text = indent;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      std::string padding(widths[i] - cells[i].size(), ' ');
      text += (i == 0 ? "" : "  ") + (right_[i] ? padding + cells[i] : cells[i] + padding);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
  };
  line(headings_);
  for (const auto& cells : rows_) line(cells);
  return out;
}

std::string human_bits(std::uint64_t bits_per_second) {
  if (bits_per_second == 0) return "-";
  char buffer[64];
  double value = static_cast<double>(bits_per_second);
  if (value >= 1e9) {
    std::snprintf(buffer, sizeof buffer, "%.2f Gbit/s", value / 1e9);
  } else {
    std::snprintf(buffer, sizeof buffer, value >= 1e7 ? "%.0f Mbit/s" : "%.1f Mbit/s", value / 1e6);
  }
  return buffer;
}

std::string percent_of(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "-";
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.1f%%", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
  return buffer;
}

}  // namespace p2pw
