// Reads one TOML table key by key and remembers which keys were asked for, so that what nobody asked for is an error. The
// first problem is kept, with file, line, key and reason; later reads do nothing then. A key that nobody asked for comes
// before other problems: mistyped, it is why another one is missing. Only for config.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <toml++/toml.h>

#include "protocol/result.h"

namespace p2pw {

class TomlProblem {
 public:
  explicit TomlProblem(std::string origin) : origin_(std::move(origin)) {}
  // Keeps the first one only. `line` 0 = the key is missing.
  void report(const std::string& key, const std::string& reason, std::size_t line = 0);
  void report_unknown(const std::string& key, const std::string& reason, std::size_t line);
  bool found() const { return error_.has_value(); }
  const std::optional<Error>& error() const { return error_; }

 private:
  std::string origin_;
  std::optional<Error> error_;
  bool unknown_ = false;  // error_ is about a key that nobody asked for
};

class TomlTable {
 public:
  // `path`: the table's own key, for messages ("channels.policy"); empty at the top.
  TomlTable(const toml::table* table, std::string path, TomlProblem& problem)
      : table_(table), path_(std::move(path)), problem_(&problem) {}

  void text(const char* key, std::string& value);
  void texts(const char* key, std::vector<std::string>& values);  // a list
  void flag(const char* key, bool& value);
  void number(const char* key, std::uint64_t& value, std::uint64_t low, std::uint64_t high);
  template <class Integer>
  void integer(const char* key, Integer& value, std::uint64_t low, std::uint64_t high) {
    std::uint64_t wide = static_cast<std::uint64_t>(value);
    number(key, wide, low, high);
    value = static_cast<Integer>(wide);
  }
  // A text that `parse` turns into a value; its error is the reason.
  template <class T, class Parse>
  void parsed(const char* key, T& value, Parse parse) {
    std::optional<std::string> found = optional_text(key);
    if (!found) return;
    auto result = parse(*found);
    if (!result) return wrong(key, result.error().message);
    value = std::move(result).value();
  }
  void table(const char* key, const std::function<void(TomlTable&)>& read);
  void each_table(const char* key, const std::function<void(TomlTable&)>& read);                        // [[key]]
  void each_named(const char* key, const std::function<void(const std::string&, TomlTable&)>& read);    // [key.NAME]

  bool has(const char* key) const { return table_ != nullptr && table_->contains(key); }
  void require(const char* key);
  void wrong(const char* key, const std::string& reason);  // about a key of this table
  void finish();                                           // reports a key that was not asked for

 private:
  const toml::node* find(const char* key);
  std::optional<std::string> optional_text(const char* key);
  std::string full(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }

  const toml::table* table_;
  std::string path_;
  TomlProblem* problem_;
  std::set<std::string> asked_;
};

}  // namespace p2pw
