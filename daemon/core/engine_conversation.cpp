#include "daemon/core/engine_conversation.h"

#include <cassert>

#include "daemon/core/transitions.h"

namespace p2pw {
namespace {

using State = ConversationState;
using std::chrono::milliseconds;

constexpr int kResumes = 4;
constexpr milliseconds kResumeAgain{200};

[[maybe_unused]] constexpr struct {
  State from, to;
} kTable[] = {
    {State::resting, State::preparing}, {State::preparing, State::resting},
    {State::resting, State::asking},    {State::asking, State::resting},
    {State::resting, State::pausing},    // load()
    {State::resting, State::updating},   // an engine that pauses by itself
    {State::pausing, State::updating},   // it stands still
    {State::pausing, State::resuming},   // it did not, or who knows: go on as before
    {State::updating, State::labelling}, // it has loaded; its label is ours to write
    {State::updating, State::resuming},  // loaded, refused or silent: go on in any case
    {State::updating, State::resting},   // nothing was paused
    {State::labelling, State::resuming}, {State::labelling, State::resting},
    {State::resuming, State::resting},
};

State state_of(EngineStep step) {
  switch (step) {
    case EngineStep::prepare: return State::preparing;
    case EngineStep::pause: return State::pausing;
    case EngineStep::update: return State::updating;
    case EngineStep::label: return State::labelling;
    case EngineStep::resume: return State::resuming;
    case EngineStep::ask: return State::asking;
  }
  return State::resting;
}

// It may have heard the question, whatever became of the answer.
bool may_have_heard(const Result<EngineAnswer>& answer) {
  return answer.ok() || answer.error().code != ErrorCode::unreachable;
}

}  // namespace

std::string_view name_of(ConversationState state) {
  switch (state) {
    case State::resting: return "resting";
    case State::preparing: return "preparing";
    case State::pausing: return "pausing";
    case State::updating: return "updating";
    case State::labelling: return "labelling";
    case State::resuming: return "resuming";
    case State::asking: return "asking";
  }
  return "";
}

EngineConversation::EngineConversation(std::unique_ptr<EngineDialect> dialect, std::unique_ptr<EngineTransport> transport,
                                       bool can_tell, Clock clock, Later later)
    : dialect_(std::move(dialect)), transport_(std::move(transport)), can_tell_(can_tell), clock_(std::move(clock)),
      later_(std::move(later)) {}

EngineConversation::~EngineConversation() { alive_.reset(); }

void EngineConversation::enter(State next) {
  assert(next == state_ || may_follow(kTable, state_, next));
  state_ = next;
  ++step_;
}

void EngineConversation::say(EngineStep step, std::function<void(Result<EngineAnswer>)> then) {
  enter(state_of(step));
  auto call = dialect_->call(step, target_);
  std::string line = call->method + (call->target.empty() ? "" : " " + call->target) + (call->body.empty() ? "" : " " + call->body);
  transport_->call(std::move(*call), [this, alive = std::weak_ptr<int>(alive_), mine = step_, then = std::move(then), step,
                                      line = std::move(line)](Result<EngineAnswer> answer) {
    if (alive.expired() || mine != step_) return;
    tell_line(step, line + " -> " + (answer.ok() ? std::to_string(answer->status) : answer.error().message), answer.ok());
    then(std::move(answer));
  });
}

// Questions are asked all the time: only answers that never came are worth a line, and one is enough.
void EngineConversation::tell_line(EngineStep step, const std::string& line, bool answered) {
  bool question = step == EngineStep::ask || step == EngineStep::prepare;
  if (!on_line || (question && (answered || line == last_line_))) return;
  last_line_ = line;
  on_line(line);
}

Status EngineConversation::judged(EngineStep step, const Result<EngineAnswer>& answer) const {
  if (!answer.ok()) return answer.error();
  return dialect_->judge(step, *answer);
}

void EngineConversation::prepare(const EngineTarget& target, Answer answer) {
  state_ = State::resting;
  target_ = target;
  say(EngineStep::prepare, [this, answer = std::move(answer)](Result<EngineAnswer> said) {
    enter(State::resting);
    answer(judged(EngineStep::prepare, said));
  });
}

void EngineConversation::ask(Report report) {
  state_ = State::resting;
  say(EngineStep::ask, [this, report = std::move(report)](Result<EngineAnswer> said) {
    enter(State::resting);
    Status good = judged(EngineStep::ask, said);
    report(good.ok() ? dialect_->report(*said) : Result<EngineReport>(good.error()));
  });
}

void EngineConversation::load(const EngineTarget& target, Loaded loaded) {
  state_ = State::resting;
  target_ = target;
  loaded_ = std::move(loaded);
  result_ = LoadResult();
  resumes_ = 0;
  pause_sent_ = dialect_->call(EngineStep::pause, target_).has_value();
  pause_at_ = clock_();
  if (!pause_sent_) return update();
  say(EngineStep::pause, [this](Result<EngineAnswer> answer) { paused(std::move(answer)); });
}

void EngineConversation::paused(Result<EngineAnswer> answer) {
  Status good = judged(EngineStep::pause, answer);
  if (good.ok()) return update();
  result_.kind = LoadResult::Kind::untouched;
  result_.error = fail(good.error().code, "the engine did not pause: " + good.error().message);
  if (may_have_heard(answer)) return resume();
  pause_sent_ = false;
  enter(State::resuming);
  this->loaded();
}

void EngineConversation::update() {
  update_at_ = clock_();
  say(EngineStep::update, [this](Result<EngineAnswer> answer) { updated(std::move(answer)); });
}

void EngineConversation::updated(Result<EngineAnswer> answer) {
  result_.loading = std::chrono::duration_cast<std::chrono::microseconds>(clock_() - update_at_);
  Status good = judged(EngineStep::update, answer);
  if (!good.ok()) {
    result_.kind = answer.ok()              ? LoadResult::Kind::refused
                   : may_have_heard(answer) ? LoadResult::Kind::unsure
                                            : LoadResult::Kind::untouched;
    result_.error = good.error();
    return resume();
  }
  result_.kind = LoadResult::Kind::loaded;
  if (!dialect_->call(EngineStep::label, target_)) return resume();
  say(EngineStep::label, [this](Result<EngineAnswer> labelled) {
    // Its label stays behind then, and asking finds that out.
    Status written = judged(EngineStep::label, labelled);
    if (!written.ok() && on_line) on_line("the label was not taken: " + written.error().message);
    resume();
  });
}

void EngineConversation::resume() {
  if (!pause_sent_) return loaded();
  if (resumes_++ == 0) result_.paused = std::chrono::duration_cast<std::chrono::microseconds>(clock_() - pause_at_);
  say(EngineStep::resume, [this](Result<EngineAnswer> answer) { resumed(std::move(answer)); });
}

void EngineConversation::resumed(Result<EngineAnswer> answer) {
  Status good = judged(EngineStep::resume, answer);
  if (!good.ok() && resumes_ < kResumes) {
    later_(kResumeAgain, [this, alive = std::weak_ptr<int>(alive_), mine = step_] {
      if (!alive.expired() && mine == step_) resume();
    });
    return;
  }
  if (!good.ok()) {
    std::string before = result_.kind == LoadResult::Kind::loaded ? "" : result_.error.message + "; and ";
    result_.error = fail(good.error().code, before + "the engine may still be paused: " + good.error().message);
    result_.kind = LoadResult::Kind::unsure;
  }
  loaded();
}

void EngineConversation::loaded() {
  enter(State::resting);
  if (auto loaded = std::exchange(loaded_, nullptr)) loaded(result_);
}

std::unique_ptr<EngineConversation> make_conversation(boost::asio::io_context& io, const HookConfig& config) {
  auto dialect = make_dialect(config);
  auto transport = make_transport(io, config);
  if (!dialect || !transport) return nullptr;
  auto later = [&io](milliseconds time, std::function<void()> task) {
    auto timer = std::make_shared<boost::asio::steady_timer>(io, time);
    timer->async_wait([timer, task = std::move(task)](boost::system::error_code error) {
      if (!error) task();
    });
  };
  return std::make_unique<EngineConversation>(std::move(dialect), std::move(transport), config.verify,
                                              [] { return std::chrono::steady_clock::now(); }, later);
}

}  // namespace p2pw
