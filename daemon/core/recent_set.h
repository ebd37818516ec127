// The last so many different values; older ones are forgotten. For what a peer makes us remember.
#pragma once

#include <cstddef>
#include <deque>
#include <set>

namespace p2pw {

template <class T>
class RecentSet {
 public:
  explicit RecentSet(std::size_t most) : most_(most) {}

  // False when it is there already.
  bool insert(const T& value) {
    if (!values_.insert(value).second) return false;
    order_.push_back(value);
    if (order_.size() > most_) {
      values_.erase(order_.front());
      order_.pop_front();
    }
    return true;
  }
  bool contains(const T& value) const { return values_.contains(value); }
  bool erase(const T& value) {
    if (values_.erase(value) == 0) return false;
    std::erase(order_, value);
    return true;
  }
  std::size_t size() const { return values_.size(); }

 private:
  std::size_t most_;
  std::set<T> values_;
  std::deque<T> order_;  // oldest first
};

}  // namespace p2pw
