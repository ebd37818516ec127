// A set of names that is made once: sorted by hash, without memory for each name.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace p2pw {

class NameSet {
 public:
  // The names must outlive the set.
  explicit NameSet(std::span<const std::string_view> names);
  bool contains(std::string_view name) const;
  // A name that was given more than once; nothing when all differ.
  std::optional<std::string_view> repeated() const;

 private:
  struct Entry {
    std::uint64_t hash;
    std::string_view name;
    auto operator<=>(const Entry&) const = default;
  };
  std::vector<Entry> entries_;
};

}  // namespace p2pw
