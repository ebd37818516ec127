// How many connections may be there that have not proven themselves: in total and from one address. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <string>

namespace p2pw {

struct AdmissionLimits {
  std::size_t per_address = 32;
  std::size_t total = 512;
};

class Admission {
 public:
  explicit Admission(AdmissionLimits limits) : limits_(limits) {}

  // False: close it at once. True: leave() must follow, when it is proven or gone.
  bool enter(const std::string& address) {
    if (total_ >= limits_.total) return false;
    std::size_t& count = counts_[address];
    if (count >= limits_.per_address) return false;
    ++count;
    ++total_;
    return true;
  }
  void leave(const std::string& address) {
    auto it = counts_.find(address);
    if (it == counts_.end()) return;
    --total_;
    if (--it->second == 0) counts_.erase(it);
  }
  std::size_t total() const { return total_; }

 private:
  AdmissionLimits limits_;
  std::size_t total_ = 0;
  std::map<std::string, std::size_t> counts_;
};

}  // namespace p2pw
