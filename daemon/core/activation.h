// From staged to active: switches `current`, tells the engine, waits for its confirmation, and goes back when any of it
// fails. See kTable in activation.cpp for the transitions.
//
//   idle -> switching -> telling -> confirming -> idle, with the version active
//   telling, confirming -> rolling_back -> idle, with the old version active
//   idle -> settling -> idle, after the disk failed in the middle of a switch
//
// The slot that is not active is left alone (SlotPair::standby_free) from activate() until the engine has let go of it:
// until release(), or the end of `grace`.
//
// Threads: control thread only; the disk is touched on the pool.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "chunker/slot_pair.h"
#include "daemon/core/work_pool.h"

namespace p2pw {

enum class ActivationState : std::uint8_t { idle, switching, telling, confirming, rolling_back, settling };
std::string_view name_of(ActivationState state);

// How an engine learns of a version. Answers come on the control thread, at most once, later than the call returns.
class EngineHook {
 public:
  using Answer = std::function<void(Status)>;
  virtual ~EngineHook() = default;
  // `checkpoint` is complete and `current` points at it.
  virtual void tell(const StagedVersion& version, const std::filesystem::path& checkpoint, Answer answer) = 0;
  // The engine serves this version now.
  virtual void confirm(const StagedVersion& version, Answer answer) = 0;
};

class ActivationEvents {
 public:
  virtual ~ActivationEvents() = default;
  virtual void version_active(const StagedVersion& version) = 0;
  // `current` names the old version again, or never left it. The very first version has none to go back to: it stays.
  virtual void activation_failed(const StagedVersion& version, const Error& error) = 0;
  // The standby can be patched again: tell the Rebuilder (slots_changed).
  virtual void standby_released() = 0;
};

struct ActivationOptions {
  std::chrono::milliseconds grace{30'000};      // how long an engine may keep the old slot without a release
  std::chrono::milliseconds time_out{120'000};  // for one answer of the hook
};

class Activation {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // `hook` may be null: then a staged version is active at once and the old slot free.
  Activation(SlotPair& slots, WorkPool& pool, EngineHook* hook, ActivationEvents& events, ActivationOptions options);
  ~Activation();
  Activation(const Activation&) = delete;

  // Takes the standby over until it is decided. While another one is under way, the newest waits.
  void activate(const StagedVersion& version, Time now);
  // The engine has let go of the old slot.
  void release();
  // Time-outs and grace; call it about once a second.
  void tick(Time now);

  ActivationState state() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace p2pw
