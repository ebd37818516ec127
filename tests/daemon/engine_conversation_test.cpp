#include "daemon/core/engine_conversation.h"

#include <gtest/gtest.h>

#include <deque>

namespace p2pw {
namespace {

using namespace std::chrono_literals;
using Kind = LoadResult::Kind;

// Answers from a script: what was said, and what comes back.
class ScriptedTransport : public EngineTransport {
 public:
  struct Log {
    std::vector<std::string> said;
    std::deque<Result<EngineAnswer>> answers;
    std::vector<Done> unanswered;
    bool silent = false;
  };
  explicit ScriptedTransport(Log& log) : log_(log) {}
  void call(EngineCall call, Done done) override {
    log_.said.push_back(call.method + " " + call.target + (call.body.empty() ? "" : " " + call.body));
    if (log_.silent || log_.answers.empty()) return log_.unanswered.push_back(std::move(done));
    auto answer = std::move(log_.answers.front());
    log_.answers.pop_front();
    done(std::move(answer));
  }

 private:
  Log& log_;
};

class EngineConversationTest : public ::testing::Test {
 protected:
  EngineConversation& with(HookConfig config) {
    conversation_ = std::make_unique<EngineConversation>(
        make_dialect(config), std::make_unique<ScriptedTransport>(log_), config.verify, [this] { return now_ += 3ms; },
        [this](std::chrono::milliseconds, std::function<void()> task) { later_.push_back(std::move(task)); });
    return *conversation_;
  }
  static HookConfig sglang() {
    HookConfig config;
    config.kind = HookKind::sglang;
    config.url = "http://127.0.0.1:1";
    return config;
  }
  static HookConfig kind(HookKind kind) {
    HookConfig config;
    config.kind = kind;
    return config;
  }
  void answers(std::vector<Result<EngineAnswer>> list) {
    log_.answers.assign(list.begin(), list.end());
  }
  LoadResult load(EngineConversation& conversation) {
    std::optional<LoadResult> result;
    conversation.load(target_, [&](LoadResult r) { result = std::move(r); });
    while (!result && !later_.empty()) {
      auto task = std::move(later_.front());
      later_.pop_front();
      task();
    }
    EXPECT_TRUE(result);
    EXPECT_EQ(conversation.state(), ConversationState::resting);
    return result.value_or(LoadResult{});
  }
  static EngineAnswer ok(std::string body = "{}") { return {200, std::move(body)}; }
  static EngineAnswer loaded() { return {200, R"({"success":true,"message":"ok","num_paused_requests":0})"}; }

  ScriptedTransport::Log log_;
  std::chrono::steady_clock::time_point now_{};
  std::deque<std::function<void()>> later_;
  std::unique_ptr<EngineConversation> conversation_;
  EngineTarget target_{*Channel::parse("policy"), Version(7), Version(6), "/slots/b/checkpoint", std::nullopt};
};

TEST_F(EngineConversationTest, SglangIsPausedLoadedAndGoesOn) {
  answers({ok(), loaded(), ok()});
  LoadResult result = load(with(sglang()));
  EXPECT_EQ(result.kind, Kind::loaded);
  EXPECT_EQ(log_.said, (std::vector<std::string>{
                           R"(POST /pause_generation {"mode":"abort"})",
                           R"(POST /update_weights_from_disk {"model_path":"/slots/b/checkpoint","weight_version":"7","flush_cache":true,"abort_all_requests":false})",
                           "POST /continue_generation {}"}));
  EXPECT_EQ(result.loading, 3ms);
  EXPECT_EQ(result.paused, 9ms);
}

TEST_F(EngineConversationTest, ARefusalWithTheDocumentedBodyIsTheEnginesOwnReason) {
  answers({ok(), EngineAnswer{400, R"({"success":false,"message":"3 requests are running","num_paused_requests":0})"}, ok()});
  LoadResult result = load(with(sglang()));
  EXPECT_EQ(result.kind, Kind::refused);
  EXPECT_NE(result.error.message.find("400: 3 requests are running"), std::string::npos) << result.error.message;
  EXPECT_EQ(log_.said.back(), "POST /continue_generation {}");
}

TEST_F(EngineConversationTest, SuccessMustBeSaid) {
  for (const char* body : {"", "{}", R"({"success":"yes"})", R"({"success":false})", "<html>"}) {
    answers({ok(), EngineAnswer{200, body}, ok()});
    EXPECT_EQ(load(with(sglang())).kind, Kind::refused) << body;
  }
}

TEST_F(EngineConversationTest, SilenceIsUnsureAndTheEngineIsToldToGoOn) {
  answers({ok(), fail(ErrorCode::timed_out, "no answer"), ok()});
  EXPECT_EQ(load(with(sglang())).kind, Kind::unsure);
  EXPECT_EQ(log_.said.size(), 3u) << "the load itself is not repeated";
}

TEST_F(EngineConversationTest, AnEngineThatDoesNotPauseIsNotToldToLoad) {
  answers({EngineAnswer{500, "no"}, ok()});
  LoadResult result = load(with(sglang()));
  EXPECT_EQ(result.kind, Kind::untouched);
  EXPECT_EQ(log_.said.back(), "POST /continue_generation {}") << "it may have heard";
  log_.said.clear();
  answers({fail(ErrorCode::unreachable, "nobody listens")});
  EXPECT_EQ(load(with(sglang())).kind, Kind::untouched);
  EXPECT_EQ(log_.said.size(), 1u) << "nobody heard";
}

TEST_F(EngineConversationTest, ContinueIsRepeated) {
  Error cut = fail(ErrorCode::incomplete, "cut off");
  answers({ok(), loaded(), cut, cut, ok()});
  EXPECT_EQ(load(with(sglang())).kind, Kind::loaded);
  answers({ok(), loaded(), cut, cut, cut, cut});
  LoadResult result = load(with(sglang()));
  EXPECT_EQ(result.kind, Kind::unsure);
  EXPECT_NE(result.error.message.find("may still be paused"), std::string::npos);
}

TEST_F(EngineConversationTest, VllmIsLabelledBeforeItGoesOn) {
  answers({ok(), ok(R"({"results":[null]})"), ok(), ok()});
  EXPECT_EQ(load(with(kind(HookKind::vllm))).kind, Kind::loaded);
  EXPECT_EQ(log_.said, (std::vector<std::string>{
                           "POST /pause?mode=abort&clear_cache=true",
                           R"(POST /collective_rpc {"method":"reload_weights","kwargs":{"weights_path":"/slots/b/checkpoint"}})",
                           R"(POST /update_weight_version {"new_version":"7"})", "POST /resume"}));
}

TEST_F(EngineConversationTest, TheFlushChoiceOfOneLoadWins) {
  target_.flush = false;
  answers({ok(), loaded(), ok()});
  load(with(sglang()));
  EXPECT_NE(log_.said[1].find(R"("flush_cache":false)"), std::string::npos);
  HookConfig in_place = sglang();
  in_place.pause = "in_place";
  target_.flush = true;
  answers({ok(), loaded(), ok()});
  log_.said.clear();
  load(with(in_place));
  EXPECT_NE(log_.said[1].find(R"("flush_cache":false)"), std::string::npos) << "SGLang refuses to flush what is held";
}

TEST_F(EngineConversationTest, PlainHooksGetOneDocument) {
  answers({ok(R"({"ok":true})")});
  EXPECT_EQ(load(with(kind(HookKind::socket))).kind, Kind::loaded);
  EXPECT_EQ(log_.said, (std::vector<std::string>{
                           R"(POST  {"event":"load","channel":"policy","version":7,"previous_version":6,"checkpoint":"/slots/b/checkpoint","flush":true})"}));
  answers({ok(R"({"ok":false,"reason":"full"})")});
  LoadResult result = load(with(kind(HookKind::webhook)));
  EXPECT_EQ(result.kind, Kind::refused);
  EXPECT_NE(result.error.message.find("full"), std::string::npos);
  for (const char* body : {"", "ok", R"({"ok":1})"}) {
    answers({ok(body)});
    EXPECT_EQ(load(with(kind(HookKind::exec))).kind, Kind::refused) << body;
  }
}

TEST_F(EngineConversationTest, AskingGivesVersionAndFolder) {
  std::optional<Result<EngineReport>> report;
  auto ask = [&](HookConfig config, Result<EngineAnswer> answer) {
    answers({std::move(answer)});
    with(config).ask([&](Result<EngineReport> r) { report = std::move(r); });
  };
  ask(sglang(), ok(R"({"model_path":"/slots/b/checkpoint/","weight_version":"7"})"));
  ASSERT_TRUE(report && report->ok());
  EXPECT_TRUE(agrees(**report, target_));
  ask(sglang(), ok(R"({"model_path":"/slots/a/checkpoint","weight_version":"7"})"));
  EXPECT_FALSE(agrees(**report, target_)) << "the label alone is not enough";
  ask(sglang(), ok(R"({"model_path":"/slots/b/checkpoint","weight_version":"default"})"));
  EXPECT_FALSE(agrees(**report, target_));
  ask(sglang(), ok("{}"));
  EXPECT_FALSE(report->ok());
  ask(kind(HookKind::vllm), ok(R"({"weight_version":7})"));
  EXPECT_TRUE(agrees(**report, target_));
  ask(kind(HookKind::vllm), EngineAnswer{404, ""});
  ASSERT_FALSE(report->ok());
  EXPECT_EQ(report->error().code, ErrorCode::unsupported);
  ask(kind(HookKind::webhook), ok(R"({"ok":true,"version":"07"})"));
  EXPECT_FALSE(agrees(**report, target_));
}

TEST_F(EngineConversationTest, ALateAnswerOfAnEarlierStepChangesNothing) {
  log_.silent = true;
  EngineConversation& conversation = with(sglang());
  int loads = 0, reports = 0;
  conversation.load(target_, [&](LoadResult) { ++loads; });
  conversation.ask([&](Result<EngineReport>) { ++reports; });
  ASSERT_EQ(log_.unanswered.size(), 2u);
  log_.unanswered[0](Result<EngineAnswer>(ok()));
  EXPECT_EQ(loads, 0);
  EXPECT_EQ(log_.said.size(), 2u);
  log_.unanswered[1](Result<EngineAnswer>(ok(R"({"weight_version":"7"})")));
  EXPECT_EQ(reports, 1);
}

TEST(EngineUrl, OnlyPlainHttp) {
  auto url = parse_engine_url("http://[::1]:30000/base/");
  ASSERT_TRUE(url.ok());
  EXPECT_EQ(url->host, "::1");
  EXPECT_EQ(url->port, "30000");
  EXPECT_EQ(url->path, "/base");
  EXPECT_EQ(parse_engine_url("http://localhost")->port, "80");
  for (const char* bad : {"", "https://127.0.0.1", "127.0.0.1:3", "http://", "http://:80", "http://a:0", "http://a:70000", "http://a:x",
                          "http://a b", "http://a/\r\nX: y", "http://user@host", "http://a?q"}) {
    EXPECT_FALSE(parse_engine_url(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace p2pw
