// When a staged version may become active by itself: at once, never, or when enough others have it staged too; and not
// sooner than some time after the last one. Versions that are overtaken while they wait are skipped. Pure.
#pragma once

#include <optional>

#include "daemon/client/config.h"
#include "daemon/core/fleet_states.h"
#include "daemon/spread/credit.h"

namespace p2pw {

class ActivationGate {
 public:
  explicit ActivationGate(ActivationPolicy policy) : policy_(policy) {}

  const ActivationPolicy& policy() const { return policy_; }
  void staged(Version version) { waiting_ = version; }
  // Of a version, by whatever way; what waits and is not newer need not wait any more.
  void activated(Version version, SteadyTime now);
  std::optional<Version> waiting() const { return waiting_; }
  // Whether it hangs on how many others have the waiting version.
  bool wants_count(SteadyTime now) const { return waiting_ && policy_.when == ActivationPolicy::When::share && rested(now); }
  // `count`: nodes that have the waiting version staged, of all there are; nothing = not known. It is not asked for twice:
  // opens() is true until activated() is called.
  bool opens(SteadyTime now, const std::optional<FleetStates::Count>& count) const;

 private:
  bool rested(SteadyTime now) const { return !last_ || now - *last_ >= policy_.interval; }

  ActivationPolicy policy_;
  std::optional<Version> waiting_;
  std::optional<SteadyTime> last_;  // activation
};

}  // namespace p2pw
