// Plain tables for people: columns as wide as their content, numbers to the right.
#pragma once

#include <string>
#include <vector>

namespace p2pw {

class Table {
 public:
  // A heading that begins with '>' stands over numbers.
  explicit Table(std::vector<std::string> headings);
  void row(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  std::string text(const std::string& indent = "") const;

 private:
  std::vector<std::string> headings_;
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

std::string human_bits(std::uint64_t bits_per_second);  // "187 Mbit/s"; "-" for 0
std::string percent_of(std::uint64_t part, std::uint64_t whole);

}  // namespace p2pw
