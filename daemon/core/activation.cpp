#include "daemon/core/activation.h"

#include <algorithm>

#include "daemon/core/transitions.h"

namespace p2pw {
namespace {

using State = ActivationState;
using std::chrono::milliseconds;

constexpr milliseconds kAskAgain{1'000};  // while it is unknown what the engine serves; doubled by each load, which pauses it
constexpr unsigned kDoublings = 6;

// What may follow what, and when.
[[maybe_unused]] constexpr struct {
  State from, to;
} kTable[] = {
    {State::idle, State::preparing},         // activate() with a hook
    {State::idle, State::switching},         // without; or the first version, which an engine may need to start at all
    {State::preparing, State::switching},    // the engine is there
    {State::preparing, State::idle},         // it is not
    {State::switching, State::telling},      // `current` names the new version, and there is a hook
    {State::switching, State::idle},         // no hook: active; or the switch failed
    {State::telling, State::confirming},     // the engine has loaded it
    {State::telling, State::rolling_back},   // it refused, or its time was up
    {State::telling, State::idle},           // loaded, and there is nothing to ask: active
    {State::confirming, State::idle},        // it serves the version: active
    {State::confirming, State::rolling_back},
    {State::rolling_back, State::reaching},  // the engine may hold something of the version it did not take
    {State::rolling_back, State::asking},    // it was never told to load
    {State::rolling_back, State::idle},      // the disk failed, or there is nothing to go back to
    {State::idle, State::reaching},          // it does not serve what `current` names, or nobody knows
    {State::reaching, State::restoring},     // it is there
    {State::reaching, State::idle},          // it is not
    {State::restoring, State::asking},       // it has loaded what `current` names
    {State::restoring, State::idle},         // it has not; or there is nothing to ask
    {State::idle, State::asking},            // the watch
    {State::asking, State::idle},
    {State::asking, State::reaching},        // it serves something else
    {State::idle, State::settling},          // a switch had failed half-way
    {State::settling, State::idle},          // `current` is certain again; or still not
};

bool waits_for_engine(State state) {
  switch (state) {
    case State::preparing:
    case State::telling:
    case State::confirming:
    case State::reaching:
    case State::restoring:
    case State::asking:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::string_view name_of(ActivationState state) {
  switch (state) {
    case State::idle: return "idle";
    case State::preparing: return "preparing";
    case State::switching: return "switching";
    case State::telling: return "telling";
    case State::confirming: return "confirming";
    case State::rolling_back: return "rolling_back";
    case State::reaching: return "reaching";
    case State::restoring: return "restoring";
    case State::asking: return "asking";
    case State::settling: return "settling";
  }
  return "";
}

class Activation::Impl {
 public:
  Impl(SlotPair& slots, WorkPool& pool, EngineHook* hook, ActivationEvents& events, ActivationOptions options);

  void activate(const StagedVersion& version, Time now, std::optional<bool> flush);
  void release();
  Status go_back(Time now);
  void tick(Time now);
  State state() const { return state_; }
  const EngineFacts& engine() const { return engine_; }
  Version served() const;

 private:
  // A version on its way, and how often it was tried.
  struct Plan {
    StagedVersion version;
    std::optional<bool> flush;
    unsigned failures = 0;
    std::optional<Time> again_at;
  };

  void enter(State next);
  void start(Plan plan);
  void prepared(const Status& status);
  void switch_current();
  void switched(const Status& status);
  void told(const LoadResult& result);
  void confirmed(const Result<EngineReport>& report);
  void roll_back(const Error& error, bool heard);
  void rolled_back(const Status& status);
  void reach();
  void reached(const Status& status);
  void restored(const LoadResult& result);
  void ask();
  void asked(const Result<EngineReport>& report);
  void settled(const Status& status);
  void deadline_passed();
  void became_active();
  void give_up(const Error& error, bool counts);
  void unknown(const Error& error);
  void known();
  void rest();
  bool holds() const;
  EngineTarget target_of(const StagedVersion& version, const Slot& slot) const;
  Error disagreement(const EngineReport& report) const;

  // An answer counts only for the step that asked for it.
  template <class Value>
  std::function<void(Value)> answer(void (Impl::*method)(const Value&)) {
    std::weak_ptr<int> alive = alive_;
    return [this, alive, method, step = ++step_](const Value& value) {
      if (!alive.expired() && step == step_) (this->*method)(value);
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
  EngineFacts engine_;
  std::optional<Plan> plan_;     // under way, or waiting for its next try
  std::optional<Plan> waiting_;  // comes next
  Version served_;               // known last; 0 = never
  Error error_;                  // why it is rolled back
  bool heard_ = true;            // the engine may have heard of the version that is rolled back
  bool dirty_ = false;           // a load may still be under way, or half done: only another load makes it certain
  bool gone_ = false;            // nobody listens: no file is mapped
  std::uint64_t step_ = 0;
  unsigned misses_ = 0;          // questions without an answer
  unsigned restores_ = 0;        // loads of what `current` names, since it was known last
  Time now_{};
  std::optional<Time> deadline_;    // of the hook's answer
  std::optional<Time> release_at_;  // the end of grace
  std::optional<Time> ask_at_;
  bool released_ = false;           // the engine let go of the old slot before it was asked to confirm
};

Activation::Impl::Impl(SlotPair& slots, WorkPool& pool, EngineHook* hook, ActivationEvents& events, ActivationOptions options)
    : slots_(slots), pool_(pool), hook_(hook), events_(events), options_(std::move(options)) {
  if (hook_ == nullptr || !slots_.active_version()) return;
  // A crash may lie behind us, between the switch and the engine's answer: it may still read the other slot.
  engine_.known = false;
  engine_.reason = "not asked yet";
  slots_.hold_standby(true);
}

void Activation::Impl::enter(State next) {
  assert(may_follow(kTable, state_, next));
  state_ = next;
  deadline_.reset();
  if (waits_for_engine(next)) deadline_ = now_ + options_.time_out;
}

Version Activation::Impl::served() const {
  if (hook_ != nullptr) return engine_.known ? served_ : Version();
  auto active = slots_.active_version();
  return active ? active->version() : Version();
}

EngineTarget Activation::Impl::target_of(const StagedVersion& version, const Slot& slot) const {
  return {options_.channel, version.version(), served_, slot.checkpoint(), plan_ ? plan_->flush : std::nullopt};
}

Error Activation::Impl::disagreement(const EngineReport& report) const {
  auto active = slots_.active_version();
  return fail(ErrorCode::integrity, "the engine says that it serves version \"" + report.version + "\"" +
                                        (report.checkpoint.empty() ? "" : " from " + report.checkpoint) + ", not version " +
                                        std::to_string(active ? active->version().value() : 0));
}

void Activation::Impl::activate(const StagedVersion& version, Time now, std::optional<bool> flush) {
  now_ = now;
  // Whatever the state: nobody patches what is to become active.
  slots_.hold_standby(true);
  Plan plan{version, flush, 0, std::nullopt};
  if (state_ == State::idle && slots_.settled()) {
    start(std::move(plan));
  } else {
    waiting_ = std::move(plan);
  }
}

void Activation::Impl::start(Plan plan) {
  plan_ = std::move(plan);
  plan_->again_at.reset();
  release_at_.reset();
  released_ = false;
  std::shared_ptr<Slot> standby = slots_.standby();
  if (hook_ == nullptr || !slots_.active_version() || standby == nullptr) return switch_current();
  enter(State::preparing);
  hook_->prepare(target_of(plan_->version, *standby), answer(&Impl::prepared));
}

void Activation::Impl::prepared(const Status& status) {
  if (status.ok()) {
    gone_ = false;
    misses_ = 0;
    return switch_current();
  }
  enter(State::idle);
  unknown(status.error());
  give_up(status.error(), false);
}

void Activation::Impl::switch_current() {
  enter(State::switching);
  on_pool([slots = &slots_, version = plan_->version] { return slots->switch_to(version); }, &Impl::switched);
}

void Activation::Impl::switched(const Status& status) {
  if (!status) {
    enter(State::idle);
    give_up(status.error(), true);
  } else if (hook_ == nullptr) {
    enter(State::idle);
    slots_.release();
    became_active();
  } else {
    enter(State::telling);
    ++engine_.loads;
    hook_->load(target_of(plan_->version, *slots_.active()), answer(&Impl::told));
  }
}

void Activation::Impl::told(const LoadResult& result) {
  engine_.last_load = result;
  if (result.kind != LoadResult::Kind::loaded) {
    bool heard = result.kind != LoadResult::Kind::untouched;
    dirty_ = dirty_ || heard;
    gone_ = !heard && result.error.code == ErrorCode::unreachable;
    return roll_back(result.error, heard);
  }
  if (!hook_->can_tell()) {
    dirty_ = false;
    enter(State::idle);
    return became_active();
  }
  enter(State::confirming);
  hook_->ask(answer(&Impl::confirmed));
}

void Activation::Impl::confirmed(const Result<EngineReport>& report) {
  if (report.ok()) engine_.says = report->version;
  EngineTarget target = target_of(plan_->version, *slots_.active());
  if (report.ok() && agrees(*report, target)) {
    dirty_ = false;
    enter(State::idle);
    return became_active();
  }
  dirty_ = true;
  roll_back(report.ok() ? disagreement(*report) : report.error(), true);
}

// `heard`: the engine may have been told to load the version.
void Activation::Impl::roll_back(const Error& error, bool heard) {
  error_ = error;
  heard_ = heard;
  engine_.known = false;
  engine_.reason = error.message;
  enter(State::rolling_back);
  if (slots_.can_switch_back()) {
    on_pool([slots = &slots_] { return slots->switch_back(); }, &Impl::rolled_back);
  } else {
    ++step_;
    enter(State::idle);
    unknown(error_);
    give_up(error_, true);
  }
}

void Activation::Impl::rolled_back(const Status& status) {
  if (!status) {
    enter(State::idle);
    unknown(error_);
    return give_up(fail(status.error().code, error_.message + "; and going back failed: " + status.error().message), true);
  }
  // The engine may have mapped files of the version that it did not take in the end.
  release_at_ = now_ + options_.grace;
  if (!heard_ && hook_->can_tell()) return ask();
  reach();
}

// `current` names what the engine should serve; it does not, or nobody knows.
void Activation::Impl::reach() {
  auto active = slots_.active_version();
  enter(State::reaching);
  hook_->prepare(target_of(*active, *slots_.active()), answer(&Impl::reached));
}

void Activation::Impl::reached(const Status& status) {
  if (!status.ok()) {
    enter(State::idle);
    unknown(status.error());
    if (plan_ && !plan_->again_at) return give_up(error_, true);
    return rest();
  }
  gone_ = false;
  enter(State::restoring);
  ++engine_.loads;
  ++restores_;
  EngineTarget target = target_of(*slots_.active_version(), *slots_.active());
  target.flush.reset();
  hook_->load(target, answer(&Impl::restored));
}

void Activation::Impl::restored(const LoadResult& result) {
  engine_.last_load = result;
  if (result.kind == LoadResult::Kind::loaded) {
    dirty_ = false;
    if (hook_->can_tell()) return ask();
    enter(State::idle);
    known();
  } else {
    dirty_ = dirty_ || result.kind != LoadResult::Kind::untouched;
    gone_ = result.kind == LoadResult::Kind::untouched && result.error.code == ErrorCode::unreachable;
    enter(State::idle);
    unknown(result.error);
  }
  if (plan_ && !plan_->again_at) return give_up(error_, true);
  rest();
}

void Activation::Impl::ask() {
  enter(State::asking);
  hook_->ask(answer(&Impl::asked));
}

void Activation::Impl::asked(const Result<EngineReport>& report) {
  if (report.ok()) {
    engine_.says = report->version;
    misses_ = 0;
    gone_ = false;
  }
  auto active = slots_.active_version();
  bool agreed = report.ok() && active && agrees(*report, target_of(*active, *slots_.active()));
  bool after_failure = plan_ && !plan_->again_at;
  if (agreed && !dirty_) {
    enter(State::idle);
    known();
  } else if (report.ok() && !after_failure) {
    if (!agreed) unknown(disagreement(*report));
    return reach();
  } else {
    enter(State::idle);
    // A single silence is no news while it was known: an engine may be busy.
    bool silent = !report.ok() && report.error().code == ErrorCode::timed_out && engine_.known && misses_++ == 0;
    if (!silent) unknown(!report.ok() ? report.error() : agreed ? error_ : disagreement(*report));
  }
  if (after_failure) return give_up(error_, true);
  rest();
}

void Activation::Impl::settled(const Status&) {
  enter(State::idle);
  rest();
}

void Activation::Impl::became_active() {
  StagedVersion version = plan_->version;
  plan_.reset();
  if (hook_ != nullptr) {
    if (released_) slots_.release();
    if (slots_.held()) release_at_ = now_ + options_.grace;
    known();
  }
  std::weak_ptr<int> alive = alive_;
  events_.version_active(version);
  if (!alive.expired()) rest();
}

// `counts`: it was a try, of which there are only so many. An engine that is not there is asked for as long as it takes.
void Activation::Impl::give_up(const Error& error, bool counts) {
  StagedVersion version = plan_->version;
  ++engine_.failures;
  if (counts) ++plan_->failures;
  bool again = hook_ != nullptr && plan_->failures <= options_.retries && slots_.settled() &&
               slots_.standby()->name() == version.slot();
  if (again) {
    plan_->again_at = now_ + options_.retry;
  } else {
    plan_.reset();
  }
  std::weak_ptr<int> alive = alive_;
  events_.activation_failed(version, error);
  if (!alive.expired()) rest();
}

void Activation::Impl::unknown(const Error& error) {
  bool news = engine_.known || engine_.reason != error.message;
  engine_.known = false;
  engine_.reason = error.message;
  gone_ = gone_ || error.code == ErrorCode::unreachable;
  ask_at_ = now_ + kAskAgain * (1u << std::min(restores_, kDoublings));
  if (news) events_.engine_changed();
}

void Activation::Impl::known() {
  auto active = slots_.active_version();
  bool news = !engine_.known || !active || served_ != active->version();
  engine_.known = true;
  engine_.reason.clear();
  misses_ = restores_ = 0;
  gone_ = false;
  served_ = active ? active->version() : Version();
  ask_at_.reset();
  if (options_.watch.count() != 0 && hook_->can_tell()) ask_at_ = now_ + options_.watch;
  if (news) events_.engine_changed();
}

// The standby is not to be patched yet.
bool Activation::Impl::holds() const {
  bool may_be_read = hook_ != nullptr && !engine_.known && !gone_ && slots_.active_version();
  return plan_ || release_at_ || may_be_read || !slots_.settled();
}

// Nothing is under way: takes the next one, or gives the standby back.
void Activation::Impl::rest() {
  if (state_ != State::idle) return;
  if (waiting_ && slots_.settled()) {
    Plan plan = *waiting_;
    waiting_.reset();
    return start(std::move(plan));
  }
  if (holds()) return;
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

Status Activation::Impl::go_back(Time now) {
  now_ = now;
  if (state_ != State::idle) return fail(ErrorCode::busy, "a version is being activated; try again when it is done");
  if (hook_ == nullptr) return slots_.switch_back();
  if (!slots_.can_switch_back()) return fail(ErrorCode::usage, "there is no version to switch back to; p2pw status shows what this node has");
  P2PW_CHECK(slots_.switch_back());
  plan_.reset();
  slots_.hold_standby(true);
  release_at_ = now_ + options_.grace;
  unknown(fail(ErrorCode::incomplete, "told to go back, and not yet heard from"));
  reach();
  return {};
}

void Activation::Impl::deadline_passed() {
  Error error = fail(ErrorCode::timed_out, "the engine gave no answer in " + std::to_string(options_.time_out.count()) +
                                               " ms while " + std::string(name_of(state_)));
  ++step_;
  switch (state_) {
    case State::preparing:
      return prepared(error);
    case State::telling:
      return told({LoadResult::Kind::unsure, error, {}, {}});
    case State::confirming:
      return confirmed(error);
    case State::reaching:
      return reached(error);
    case State::restoring:
      return restored({LoadResult::Kind::unsure, error, {}, {}});
    case State::asking:
      return asked(error);
    default:
      return;
  }
}

void Activation::Impl::tick(Time now) {
  now_ = now;
  if (deadline_ && now >= *deadline_) return deadline_passed();
  if (state_ != State::idle) return;
  bool unknown = hook_ != nullptr && !engine_.known && slots_.active_version().has_value();
  if (!slots_.settled()) {
    enter(State::settling);
    on_pool([slots = &slots_] { return slots->settle(); }, &Impl::settled);
  } else if (unknown && (!ask_at_ || now >= *ask_at_)) {
    dirty_ || !hook_->can_tell() ? reach() : ask();
  } else if (plan_ && plan_->again_at && now >= *plan_->again_at && !unknown) {
    start(*plan_);
  } else if (release_at_ && now >= *release_at_) {
    release();
  } else if (ask_at_ && now >= *ask_at_) {
    ask();
  }
}

Activation::Activation(SlotPair& slots, WorkPool& pool, EngineHook* hook, ActivationEvents& events,
                       ActivationOptions options)
    : impl_(std::make_unique<Impl>(slots, pool, hook, events, std::move(options))) {}
Activation::~Activation() = default;

void Activation::activate(const StagedVersion& version, Time now, std::optional<bool> flush) {
  impl_->activate(version, now, flush);
}
void Activation::release() { impl_->release(); }
Status Activation::go_back(Time now) { return impl_->go_back(now); }
void Activation::tick(Time now) { impl_->tick(now); }
ActivationState Activation::state() const { return impl_->state(); }
const EngineFacts& Activation::engine() const { return impl_->engine(); }
Version Activation::served() const { return impl_->served(); }

}  // namespace p2pw
