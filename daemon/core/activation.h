// From staged to active: switches `current`, tells the engine, believes only its answer, and goes back when any of it
// fails. See kTable in activation.cpp for the transitions.
//
//   idle -> preparing -> switching -> telling -> confirming -> idle        the version is active
//   preparing -> idle                                                      the engine is not there: nothing was touched
//   telling, confirming -> rolling_back -> reaching -> restoring -> asking -> idle   the engine has the old version again
//   idle -> asking -> idle                                                 does it still serve what it should?
//   idle -> settling -> idle                                               after the disk failed in the middle of a switch
//
// Known or unknown: with a hook, what the engine serves is known only while its own last answer says so. Until then, and
// after any answer that is missing or does not fit, it is unknown: then it is asked again and again, and given what
// `current` names once more, until it says that it serves that. A load that may have been heard but was never answered
// makes even a right answer worthless until another load went through.
//
// The slot that is not active is left alone (SlotPair::standby_free) from activate() until the engine has let go of it:
// until release(), or the end of `grace`; and while it is unknown what the engine reads, unless nobody listens any more.
//
// Threads: control thread only; the disk is touched on the pool.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "chunker/slot_pair.h"
#include "daemon/core/engine_hook.h"
#include "daemon/core/work_pool.h"

namespace p2pw {

enum class ActivationState : std::uint8_t {
  idle, preparing, switching, telling, confirming, rolling_back, reaching, restoring, asking, settling
};
std::string_view name_of(ActivationState state);

class ActivationEvents {
 public:
  virtual ~ActivationEvents() = default;
  virtual void version_active(const StagedVersion& version) = 0;
  // `current` names the old version again, or never left it. The very first version has none to go back to: it stays.
  virtual void activation_failed(const StagedVersion& version, const Error& error) = 0;
  // The standby can be patched again: tell the Rebuilder (slots_changed).
  virtual void standby_released() = 0;
  // engine_known() has changed, or the reason why it is not. Only with a hook.
  virtual void engine_changed() = 0;
};

struct ActivationOptions {
  Channel channel;
  std::chrono::milliseconds grace{30'000};     // how long an engine may keep the old slot without a release
  std::chrono::milliseconds time_out{120'000}; // for one answer of the hook, should it give none at all
  std::chrono::milliseconds watch{10'000};     // how often the engine is asked what it serves; 0 = only while unknown
  std::chrono::milliseconds retry{5'000};      // before a version that failed is tried again
  unsigned retries = 2;
};

// For status and metrics.
struct EngineFacts {
  bool known = true;      // without a hook always
  std::string reason;     // why not
  std::string says;       // the label it gave last; empty = none yet
  LoadResult last_load;   // the newest load that it was told
  std::uint64_t loads = 0, failures = 0;
};

class Activation {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // `hook` may be null: then a staged version is active at once and the old slot free.
  Activation(SlotPair& slots, WorkPool& pool, EngineHook* hook, ActivationEvents& events, ActivationOptions options);
  ~Activation();
  Activation(const Activation&) = delete;

  // Takes the standby over until it is decided. While another one is under way, the newest waits. `flush` overrides what
  // the hook does with the cache of the old weights.
  void activate(const StagedVersion& version, Time now, std::optional<bool> flush = std::nullopt);
  // The engine has let go of the old slot.
  void release();
  // Makes the version before the active one active again, on this node. Errors: usage (there is none, or no time for it).
  Status go_back(Time now);
  // Time-outs, retries, the engine's watch and grace; call it several times a second.
  void tick(Time now);

  ActivationState state() const;
  const EngineFacts& engine() const;
  // What the engine serves, until it has confirmed another; without a hook what `current` names. 0 = unknown, or none.
  Version served() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace p2pw
