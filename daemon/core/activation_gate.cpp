#include "daemon/core/activation_gate.h"

namespace p2pw {

void ActivationGate::activated(Version version, SteadyTime now) {
  last_ = now;
  if (waiting_ && *waiting_ <= version) waiting_.reset();
}

bool ActivationGate::opens(SteadyTime now, const std::optional<FleetStates::Count>& count) const {
  if (!waiting_ || !rested(now)) return false;
  switch (policy_.when) {
    case ActivationPolicy::When::at_once: return true;
    case ActivationPolicy::When::asked: return false;
    case ActivationPolicy::When::share: break;
  }
  return count && count->total > 0 && count->staged * 100 >= std::size_t{policy_.percent} * count->total;
}

}  // namespace p2pw
