// The conversation with one engine: which step follows which, what is repeated, and what an answer that never came means.
// See kTable in the source for the steps.
//
//   prepare()  resting -> preparing -> resting
//   load()     resting -> pausing -> updating -> labelling -> resuming -> resting      (steps an engine lacks are left out)
//   ask()      resting -> asking -> resting
//
// The update is sent once: a second one might meet the first. Pause and continue may be repeated, and continue is sent
// whenever a pause was, heard or not, so that an engine is not left standing.
//
// One at a time; a call while another is under way ends that one's answer.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>

#include "daemon/core/engine_dialect.h"

namespace p2pw {

enum class ConversationState : std::uint8_t { resting, preparing, pausing, updating, labelling, resuming, asking };
std::string_view name_of(ConversationState state);

class EngineConversation : public EngineHook {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;
  // Runs something a little later (a repeated continue).
  using Later = std::function<void(std::chrono::milliseconds, std::function<void()>)>;

  EngineConversation(std::unique_ptr<EngineDialect> dialect, std::unique_ptr<EngineTransport> transport, bool can_tell,
                     Clock clock, Later later);
  ~EngineConversation() override;

  void prepare(const EngineTarget& target, Answer answer) override;
  void load(const EngineTarget& target, Loaded loaded) override;
  void ask(Report report) override;
  bool can_tell() const override { return can_tell_; }

  ConversationState state() const { return state_; }
  // Each call sent and its answer, in a line: for the event log.
  std::function<void(const std::string&)> on_line;

 private:
  void enter(ConversationState next);
  void say(EngineStep step, std::function<void(Result<EngineAnswer>)> then);
  void paused(Result<EngineAnswer> answer);
  void update();
  void updated(Result<EngineAnswer> answer);
  void resume();
  void resumed(Result<EngineAnswer> answer);
  void loaded();
  void tell_line(EngineStep step, const std::string& line, bool answered);
  Status judged(EngineStep step, const Result<EngineAnswer>& answer) const;

  std::unique_ptr<EngineDialect> dialect_;
  std::unique_ptr<EngineTransport> transport_;
  bool can_tell_;
  Clock clock_;
  Later later_;
  ConversationState state_ = ConversationState::resting;
  std::uint64_t step_ = 0;  // answers of earlier steps count no more
  EngineTarget target_;
  Loaded loaded_;
  LoadResult result_;
  int resumes_ = 0;
  bool pause_sent_ = false;
  std::string last_line_;
  std::chrono::steady_clock::time_point pause_at_{}, update_at_{};
  std::shared_ptr<int> alive_ = std::make_shared<int>();
};

// Null for HookKind::none.
std::unique_ptr<EngineConversation> make_conversation(boost::asio::io_context& io, const HookConfig& config);

}  // namespace p2pw
