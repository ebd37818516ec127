// How much useless work each peer may make of us: so much at once, so much a second on the long run. Pure: times are
// handed in.
#pragma once

#include <algorithm>
#include <chrono>
#include <map>

#include "protocol/ids.h"

namespace p2pw {

class PeerBudget {
 public:
  using Time = std::chrono::steady_clock::time_point;
  PeerBudget(double burst, double per_second) : burst_(burst), per_second_(per_second) {}

  // False when it is used up: the work is not to be done.
  bool spend(const NodeKey& peer, Time now, double amount = 1) {
    Account& account = accounts_.try_emplace(peer, Account{burst_, now}).first->second;
    const double passed = std::chrono::duration<double>(now - account.at).count();
    account.left = std::min(burst_, account.left + std::max(0.0, passed) * per_second_);
    account.at = now;
    if (account.left < amount) return false;
    account.left -= amount;
    return true;
  }
  // Those that have had time enough to be full again need not be remembered. A link that comes and goes gains nothing.
  void forget_quiet(Time now) {
    std::erase_if(accounts_, [&](const auto& entry) {
      return std::chrono::duration<double>(now - entry.second.at).count() * per_second_ >= burst_;
    });
  }
  std::size_t size() const { return accounts_.size(); }

 private:
  struct Account {
    double left;
    Time at;
  };
  double burst_, per_second_;
  std::map<NodeKey, Account> accounts_;
};

}  // namespace p2pw
