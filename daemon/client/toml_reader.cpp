#include "daemon/client/toml_reader.h"

namespace p2pw {

void TomlProblem::report(const std::string& key, const std::string& reason, std::size_t line) {
  if (error_) return;
  std::string place = line == 0 ? origin_ : origin_ + ":" + std::to_string(line);
  error_ = fail(ErrorCode::config, place + ": " + key + ": " + reason);
}

void TomlProblem::report_unknown(const std::string& key, const std::string& reason, std::size_t line) {
  if (unknown_) return;
  unknown_ = true;
  error_.reset();
  report(key, reason, line);
}

const toml::node* TomlTable::find(const char* key) {
  asked_.insert(key);
  if (table_ == nullptr || problem_->found()) return nullptr;
  return table_->get(key);
}

std::optional<std::string> TomlTable::optional_text(const char* key) {
  const toml::node* node = find(key);
  if (node == nullptr) return std::nullopt;
  auto value = node->value_exact<std::string>();
  if (!value) {
    wrong(key, "must be a text in quotes");
    return std::nullopt;
  }
  if (value->find('\0') != std::string::npos) {
    wrong(key, "holds a NUL character");
    return std::nullopt;
  }
  return value;
}

void TomlTable::text(const char* key, std::string& value) {
  if (auto found = optional_text(key)) value = *found;
}

void TomlTable::texts(const char* key, std::vector<std::string>& values) {
  const toml::node* node = find(key);
  if (node == nullptr) return;
  const toml::array* list = node->as_array();
  if (list == nullptr) return wrong(key, "must be a list of texts, like [\"/usr/bin/program\", \"--option\"]");
  values.clear();
  for (const toml::node& element : *list) {
    auto text = element.value_exact<std::string>();
    if (!text || text->find('\0') != std::string::npos) return wrong(key, "must be a list of texts without NUL characters");
    values.push_back(*text);
  }
}

void TomlTable::flag(const char* key, bool& value) {
  const toml::node* node = find(key);
  if (node == nullptr) return;
  auto found = node->value_exact<bool>();
  if (!found) return wrong(key, "must be true or false");
  value = *found;
}

void TomlTable::number(const char* key, std::uint64_t& value, std::uint64_t low, std::uint64_t high) {
  const toml::node* node = find(key);
  if (node == nullptr) return;
  auto found = node->value_exact<std::int64_t>();
  if (!found || *found < 0 || static_cast<std::uint64_t>(*found) < low || static_cast<std::uint64_t>(*found) > high) {
    return wrong(key, "must be a whole number from " + std::to_string(low) + " to " + std::to_string(high));
  }
  value = static_cast<std::uint64_t>(*found);
}

void TomlTable::table(const char* key, const std::function<void(TomlTable&)>& read) {
  const toml::node* node = find(key);
  if (node != nullptr && !node->is_table()) return wrong(key, "must be a table, [" + full(key) + "]");
  TomlTable child(node == nullptr ? nullptr : node->as_table(), full(key), *problem_);
  read(child);
  child.finish();
}

void TomlTable::each_table(const char* key, const std::function<void(TomlTable&)>& read) {
  const toml::node* node = find(key);
  if (node == nullptr) return;
  if (!node->is_array() || (!node->as_array()->empty() && !node->is_array_of_tables())) {
    return wrong(key, "must be a list of tables, [[" + full(key) + "]]");
  }
  std::size_t index = 0;
  for (const toml::node& element : *node->as_array()) {
    TomlTable child(element.as_table(), full(key) + "[" + std::to_string(index++) + "]", *problem_);
    read(child);
    child.finish();
  }
}

void TomlTable::each_named(const char* key, const std::function<void(const std::string&, TomlTable&)>& read) {
  const toml::node* node = find(key);
  if (node == nullptr) return;
  if (!node->is_table()) return wrong(key, "must hold tables, [" + full(key) + ".NAME]");
  for (auto&& [name, element] : *node->as_table()) {
    std::string name_text(name.str());
    if (!element.is_table()) {
      return problem_->report(full(key) + "." + name_text, "must be a table, [" + full(key) + ".NAME]",
                              element.source().begin.line);
    }
    TomlTable child(element.as_table(), full(key) + "." + name_text, *problem_);
    read(name_text, child);
    child.finish();
  }
}

void TomlTable::require(const char* key) {
  if (!has(key)) wrong(key, "is missing");
}

void TomlTable::wrong(const char* key, const std::string& reason) {
  const toml::node* node = table_ == nullptr ? nullptr : table_->get(key);
  std::size_t line = node != nullptr ? node->source().begin.line : table_ != nullptr ? table_->source().begin.line : 0;
  problem_->report(full(key), reason, line);
}

void TomlTable::finish() {
  if (table_ == nullptr) return;
  for (auto&& [name, node] : *table_) {
    if (asked_.contains(std::string(name.str()))) continue;
    std::string known;
    for (const std::string& key : asked_) known += (known.empty() ? "" : ", ") + key;
    problem_->report_unknown(full(std::string(name.str())), "is no key that p2pwd knows; known here: " + known,
                             node.source().begin.line);
  }
}

}  // namespace p2pw
