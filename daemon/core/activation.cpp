#include "daemon/core/activation.h"

namespace p2pw {
namespace {

using State = ActivationState;

// What may follow what, and when.
constexpr struct {
  State from, to;
} kTable[] = {
    {State::idle, State::switching},           // activate()
    {State::switching, State::telling},        // `current` names the new version, and there is a hook
    {State::switching, State::idle},           // no hook: active; or the switch failed
    {State::telling, State::confirming},       // the engine has loaded it
    {State::telling, State::rolling_back},     // it refused, or its time was up
    {State::confirming, State::idle},          // it serves the version: active
    {State::confirming, State::rolling_back},
    {State::rolling_back, State::idle},        // the old version is active again; or the disk failed
    {State::idle, State::settling},            // a switch had failed half-way
    {State::settling, State::idle},            // `current` is certain again; or still not
};

[[maybe_unused]] bool allowed(State from, State to) {
  for (const auto& row : kTable) {
    if (row.from == from && row.to == to) return true;
  }
  return false;
}

}  // namespace

std::string_view name_of(ActivationState state) {
  switch (state) {
    case State::idle:
      return "idle";
    case State::switching:
      return "switching";
    case State::telling:
      return "telling";
    case State::confirming:
      return "confirming";
    case State::rolling_back:
      return "rolling_back";
    case State::settling:
      return "settling";
  }
  return "";
}

class Activation::Impl {
 public:
  Impl(SlotPair& slots, WorkPool& pool, EngineHook* hook, ActivationEvents& events, ActivationOptions options)
      : slots_(slots), pool_(pool), hook_(hook), events_(events), options_(options) {}

  void activate(const StagedVersion& version, Time now);
  void release();
  void tick(Time now);
  State state() const { return state_; }

 private:
  void enter(State next);
  void start(const StagedVersion& version);
  void switched(const Status& status);
  void told(const Status& status);
  void confirmed(const Status& status);
  void roll_back(const Error& error);
  void rolled_back(const Status& status);
  void settled(const Status& status);
  void became_active();
  void give_up(const Error& error);
  void rest();

  // An answer counts only for the step that asked for it.
  EngineHook::Answer answer(void (Impl::*method)(const Status&)) {
    std::weak_ptr<int> alive = alive_;
    return [this, alive, method, step = ++step_](const Status& status) {
      if (!alive.expired() && step == step_) (this->*method)(status);
    };
  }
  template <class Work>
  void on_pool(Work work, void (Impl::*method)(const Status&)) {
    pool_.run(std::move(work), answer(method));
  }

  SlotPair& slots_;
  WorkPool& pool_;
  EngineHook* hook_;
  ActivationEvents& events_;
  ActivationOptions options_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();

  State state_ = State::idle;
  std::optional<StagedVersion> version_;  // under way
  std::optional<StagedVersion> waiting_;
  Error error_;                           // why it is rolled back
  std::uint64_t step_ = 0;
  Time now_{};
  std::optional<Time> deadline_;          // of the hook's answer
  std::optional<Time> release_at_;        // the end of grace
  bool released_ = false;                 // the engine let go of the old slot before it was asked to confirm
};

void Activation::Impl::enter(State next) {
  assert(allowed(state_, next));
  state_ = next;
  deadline_.reset();
  if (next == State::telling || next == State::confirming) deadline_ = now_ + options_.time_out;
}

void Activation::Impl::activate(const StagedVersion& version, Time now) {
  now_ = now;
  // Whatever the state: nobody patches what is to become active.
  slots_.hold_standby(true);
  if (state_ == State::idle) {
    start(version);
  } else {
    waiting_ = version;
  }
}

void Activation::Impl::start(const StagedVersion& version) {
  version_ = version;
  release_at_.reset();
  released_ = false;
  enter(State::switching);
  on_pool([slots = &slots_, version] { return slots->switch_to(version); }, &Impl::switched);
}

void Activation::Impl::switched(const Status& status) {
  if (!status) {
    enter(State::idle);
    give_up(status.error());
  } else if (hook_ == nullptr) {
    enter(State::idle);
    slots_.release();
    became_active();
  } else {
    enter(State::telling);
    hook_->tell(*version_, slots_.active()->checkpoint(), answer(&Impl::told));
  }
}

void Activation::Impl::told(const Status& status) {
  if (!status) {
    roll_back(status.error());
    return;
  }
  enter(State::confirming);
  hook_->confirm(*version_, answer(&Impl::confirmed));
}

void Activation::Impl::confirmed(const Status& status) {
  if (!status) {
    roll_back(status.error());
    return;
  }
  enter(State::idle);
  if (released_) slots_.release();
  if (slots_.held()) release_at_ = now_ + options_.grace;
  became_active();
}

void Activation::Impl::roll_back(const Error& error) {
  error_ = error;
  enter(State::rolling_back);
  if (slots_.can_switch_back()) {
    on_pool([slots = &slots_] { return slots->switch_back(); }, &Impl::rolled_back);
  } else {
    ++step_;
    enter(State::idle);
    give_up(error_);
  }
}

void Activation::Impl::rolled_back(const Status& status) {
  enter(State::idle);
  if (status) {
    // The engine may have mapped files of the version that it did not take in the end.
    release_at_ = now_ + options_.grace;
    give_up(error_);
  } else {
    give_up(fail(status.error().code, error_.message + "; and going back failed: " + status.error().message));
  }
}

void Activation::Impl::settled(const Status&) {
  enter(State::idle);
  rest();
}

void Activation::Impl::became_active() {
  StagedVersion version = *version_;
  version_.reset();
  std::weak_ptr<int> alive = alive_;
  events_.version_active(version);
  if (!alive.expired()) rest();
}

void Activation::Impl::give_up(const Error& error) {
  StagedVersion version = *version_;
  version_.reset();
  std::weak_ptr<int> alive = alive_;
  events_.activation_failed(version, error);
  if (!alive.expired()) rest();
}

// Nothing is under way: takes the next one, or gives the standby back.
void Activation::Impl::rest() {
  if (state_ != State::idle) return;
  if (waiting_) {
    StagedVersion version = *waiting_;
    waiting_.reset();
    start(version);
    return;
  }
  if (release_at_ || !slots_.settled()) return;
  slots_.hold_standby(false);
  if (slots_.standby_free()) events_.standby_released();
}

void Activation::Impl::release() {
  if (state_ == State::telling || state_ == State::confirming) released_ = true;
  if (state_ != State::idle || !release_at_) return;
  release_at_.reset();
  slots_.release();
  rest();
}

void Activation::Impl::tick(Time now) {
  now_ = now;
  if (deadline_ && now >= *deadline_) {
    roll_back(fail(ErrorCode::timed_out, "the engine gave no answer in " +
                                             std::to_string(options_.time_out.count()) + " ms while " +
                                             std::string(name_of(state_))));
  } else if (state_ == State::idle && !slots_.settled()) {
    enter(State::settling);
    on_pool([slots = &slots_] { return slots->settle(); }, &Impl::settled);
  } else if (release_at_ && now >= *release_at_) {
    release();
  }
}

Activation::Activation(SlotPair& slots, WorkPool& pool, EngineHook* hook, ActivationEvents& events,
                       ActivationOptions options)
    : impl_(std::make_unique<Impl>(slots, pool, hook, events, options)) {}
Activation::~Activation() = default;

void Activation::activate(const StagedVersion& version, Time now) { impl_->activate(version, now); }
void Activation::release() { impl_->release(); }
void Activation::tick(Time now) { impl_->tick(now); }
ActivationState Activation::state() const { return impl_->state(); }

}  // namespace p2pw
