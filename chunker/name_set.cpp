#include "chunker/name_set.h"

#include <xxhash.h>

#include <algorithm>

namespace p2pw {
namespace {

std::uint64_t hash_of(std::string_view name) { return XXH3_64bits(name.data(), name.size()); }

}  // namespace

NameSet::NameSet(std::span<const std::string_view> names) {
  entries_.reserve(names.size());
  for (std::string_view name : names) entries_.push_back({hash_of(name), name});
  std::sort(entries_.begin(), entries_.end());
}

bool NameSet::contains(std::string_view name) const {
  return std::binary_search(entries_.begin(), entries_.end(), Entry{hash_of(name), name});
}

std::optional<std::string_view> NameSet::repeated() const {
  for (std::size_t i = 1; i < entries_.size(); ++i) {
    if (entries_[i - 1] == entries_[i]) return entries_[i].name;
  }
  return std::nullopt;
}

}  // namespace p2pw
