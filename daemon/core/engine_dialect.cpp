#include "daemon/core/engine_dialect.h"

#include <nlohmann/json.hpp>

namespace p2pw {
namespace {

using Json = nlohmann::ordered_json;

std::string dumped(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }
std::string decimal(Version version) { return std::to_string(version.value()); }

Json parsed(const std::string& body) {
  Json json = Json::parse(body, nullptr, false);
  return json.is_object() ? json : Json::object();
}

// A label may be a text or a number.
std::string label_of(const Json& json, const char* key) {
  auto it = json.find(key);
  if (it == json.end()) return "";
  if (it->is_string()) return it->get<std::string>();
  return it->is_number() ? it->dump() : "";
}

// The engine's reason, from whichever key it keeps it under; printable and short.
std::string reason_of(const EngineAnswer& answer) {
  Json json = parsed(answer.body);
  std::string reason;
  for (const char* key : {"message", "reason", "detail", "error"}) {
    auto it = json.find(key);
    if (it == json.end()) continue;
    if (it->is_object() && it->contains("message")) it = it->find("message");
    reason = it->is_string() ? it->get<std::string>() : dumped(*it);
    break;
  }
  if (reason.empty()) reason = answer.body;
  for (char& c : reason) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  if (reason.size() > 300) reason = reason.substr(0, 300) + "...";
  return reason;
}

bool success(const EngineAnswer& answer) { return answer.status >= 200 && answer.status < 300; }

// One spelling of a folder, with or without a slash at its end.
std::filesystem::path plain(const std::filesystem::path& folder) {
  auto normal = folder.lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

Status refused(const EngineAnswer& answer) {
  return fail(ErrorCode::failed, "the engine answered " + std::to_string(answer.status) + ": " + reason_of(answer));
}

class Sglang : public EngineDialect {
 public:
  explicit Sglang(const HookConfig& config) : config_(config) {}

  std::optional<EngineCall> call(EngineStep step, const EngineTarget& target) const override {
    switch (step) {
      case EngineStep::prepare:
      case EngineStep::ask:
        return EngineCall{"GET", "/get_model_info", "", config_.control_time};
      case EngineStep::pause:
        return EngineCall{"POST", "/pause_generation", dumped({{"mode", mode()}}), config_.control_time};
      case EngineStep::update:
        return EngineCall{"POST", "/update_weights_from_disk",
                          dumped({{"model_path", target.checkpoint.string()},
                                  {"weight_version", decimal(target.version)},
                                  {"flush_cache", target.flush.value_or(config_.flush) && mode() != "in_place"},
                                  {"abort_all_requests", false}}),
                          config_.load_time};
      case EngineStep::resume:
        return EngineCall{"POST", "/continue_generation", "{}", config_.control_time};
      case EngineStep::label:
        return std::nullopt;
    }
    return std::nullopt;
  }

  Status judge(EngineStep step, const EngineAnswer& answer) const override {
    if (!success(answer)) return refused(answer);
    if (step == EngineStep::update) {
      Json json = parsed(answer.body);
      if (!json.value("success", Json(nullptr)).is_boolean() || !json["success"].get<bool>()) return refused(answer);
    }
    return {};
  }

  Result<EngineReport> report(const EngineAnswer& answer) const override {
    Json json = parsed(answer.body);
    EngineReport report{label_of(json, "weight_version"), label_of(json, "model_path")};
    if (report.version.empty()) return fail(ErrorCode::malformed, "GET /get_model_info names no weight_version: this SGLang is too old");
    return report;
  }

 private:
  std::string mode() const { return config_.pause.empty() ? "abort" : config_.pause; }
  HookConfig config_;
};

class Vllm : public EngineDialect {
 public:
  explicit Vllm(const HookConfig& config) : config_(config) {}

  std::optional<EngineCall> call(EngineStep step, const EngineTarget& target) const override {
    switch (step) {
      case EngineStep::prepare:
        // Without the development routes it cannot be paused: known before anything is touched.
        return EngineCall{"GET", "/is_paused", "", config_.control_time};
      case EngineStep::pause: {
        bool flush = target.flush.value_or(config_.flush);
        std::string mode = config_.pause.empty() ? "abort" : config_.pause;
        auto time = mode == "wait" ? config_.load_time : config_.control_time;
        return EngineCall{"POST", "/pause?mode=" + mode + "&clear_cache=" + (flush ? "true" : "false"), "", time};
      }
      case EngineStep::update: {
        Json body = {{"method", "reload_weights"}};
        if (config_.pass_path) body["kwargs"] = {{"weights_path", target.checkpoint.string()}};
        return EngineCall{"POST", "/collective_rpc", dumped(body), config_.load_time};
      }
      case EngineStep::label:
        if (!config_.verify) return std::nullopt;
        return EngineCall{"POST", "/update_weight_version", dumped({{"new_version", decimal(target.version)}}), config_.control_time};
      case EngineStep::resume:
        return EngineCall{"POST", "/resume", "", config_.control_time};
      case EngineStep::ask:
        return EngineCall{"GET", "/weight_info", "", config_.control_time};
    }
    return std::nullopt;
  }

  Status judge(EngineStep step, const EngineAnswer& answer) const override {
    if (step == EngineStep::prepare && answer.status == 404) {
      return fail(ErrorCode::unsupported, "the engine has no /is_paused: start vLLM with VLLM_SERVER_DEV_MODE=1");
    }
    if (step == EngineStep::ask && answer.status == 404) {
      return fail(ErrorCode::unsupported, "the engine has no /weight_info and cannot say what it serves: use a newer vLLM, or "
                                          "verify = false to take its answer to the load for it");
    }
    return success(answer) ? Status() : refused(answer);
  }

  Result<EngineReport> report(const EngineAnswer& answer) const override {
    EngineReport report{label_of(parsed(answer.body), "weight_version"), ""};
    if (report.version.empty()) report.version = "none";
    return report;
  }

 private:
  HookConfig config_;
};

// One document for each event, one in answer: webhooks, sockets, programs.
class Plain : public EngineDialect {
 public:
  explicit Plain(const HookConfig& config) : config_(config) {}

  std::optional<EngineCall> call(EngineStep step, const EngineTarget& target) const override {
    auto one = [&](const char* event, std::chrono::seconds time) {
      Json json = {{"event", event}, {"channel", target.channel.str()}};
      if (step != EngineStep::ask) {
        json["version"] = target.version.value();
        json["previous_version"] = target.previous.value();
        json["checkpoint"] = target.checkpoint.string();
        json["flush"] = target.flush.value_or(config_.flush);
      }
      return EngineCall{"POST", "", dumped(json), time};
    };
    switch (step) {
      case EngineStep::prepare:
        return one("prepare", config_.control_time);
      case EngineStep::update:
        return one("load", config_.load_time);
      case EngineStep::ask:
        return one("version", config_.control_time);
      case EngineStep::pause:
      case EngineStep::label:
      case EngineStep::resume:
        return std::nullopt;
    }
    return std::nullopt;
  }

  Status judge(EngineStep, const EngineAnswer& answer) const override {
    Json json = parsed(answer.body);
    auto ok = json.find("ok");
    if (!success(answer) || ok == json.end() || !ok->is_boolean() || !ok->get<bool>()) return refused(answer);
    return {};
  }

  Result<EngineReport> report(const EngineAnswer& answer) const override {
    Json json = parsed(answer.body);
    EngineReport report{label_of(json, "version"), label_of(json, "checkpoint")};
    if (report.version.empty()) return fail(ErrorCode::malformed, "the answer names no version");
    return report;
  }

 private:
  HookConfig config_;
};

}  // namespace

std::string_view name_of(EngineStep step) {
  switch (step) {
    case EngineStep::prepare: return "prepare";
    case EngineStep::pause: return "pause";
    case EngineStep::update: return "load";
    case EngineStep::label: return "label";
    case EngineStep::resume: return "continue";
    case EngineStep::ask: return "ask";
  }
  return "";
}

std::unique_ptr<EngineDialect> make_dialect(const HookConfig& config) {
  switch (config.kind) {
    case HookKind::none: return nullptr;
    case HookKind::sglang: return std::make_unique<Sglang>(config);
    case HookKind::vllm: return std::make_unique<Vllm>(config);
    case HookKind::webhook:
    case HookKind::socket:
    case HookKind::exec: return std::make_unique<Plain>(config);
  }
  return nullptr;
}

std::unique_ptr<EngineTransport> make_transport(boost::asio::io_context& io, const HookConfig& config) {
  if (config.kind == HookKind::none) return nullptr;
  if (config.kind == HookKind::socket) return socket_transport(io, config.socket.string());
  if (config.kind == HookKind::exec) return exec_transport(io, config.command);
  auto url = parse_engine_url(config.url);  // checked when the configuration was read
  return url.ok() ? http_transport(io, *url, config.token) : nullptr;
}

bool agrees(const EngineReport& report, const EngineTarget& target) {
  if (report.version != decimal(target.version)) return false;
  return report.checkpoint.empty() || plain(report.checkpoint) == plain(target.checkpoint);
}

}  // namespace p2pw
