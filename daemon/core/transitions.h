// State machines as tables: rows of {from, to}.
#pragma once

#include <algorithm>
#include <iterator>

namespace p2pw {

template <class Row, std::size_t kRows, class State>
bool may_follow(const Row (&table)[kRows], State from, State to) {
  return std::any_of(std::begin(table), std::end(table), [&](const Row& row) { return row.from == from && row.to == to; });
}

}  // namespace p2pw
