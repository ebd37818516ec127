// What one kind of engine is told at each step of a load, and what its answers mean. Pure; the order of the steps is
// engine_conversation.h's.
//
// Sources: SGLang's http_server.py and its RL documentation; vLLM's rlhf and rpc API routers (routes that need
// VLLM_SERVER_DEV_MODE=1). The JSON that webhooks, sockets and programs get is in HOTLOAD.md.
#pragma once

#include <memory>
#include <optional>

#include "daemon/client/hook_config.h"
#include "daemon/core/engine_hook.h"
#include "daemon/core/engine_transport.h"

namespace p2pw {

enum class EngineStep { prepare, pause, update, label, resume, ask };
std::string_view name_of(EngineStep step);

class EngineDialect {
 public:
  virtual ~EngineDialect() = default;
  // Nothing: this engine has no such step. `ask` and `prepare` always are.
  virtual std::optional<EngineCall> call(EngineStep step, const EngineTarget& target) const = 0;
  // Good, or the engine's own reason.
  virtual Status judge(EngineStep step, const EngineAnswer& answer) const = 0;
  // Of a good answer to `ask`. Error: malformed.
  virtual Result<EngineReport> report(const EngineAnswer& answer) const = 0;
};

std::unique_ptr<EngineDialect> make_dialect(const HookConfig& config);
// Null for HookKind::none.
std::unique_ptr<EngineTransport> make_transport(boost::asio::io_context& io, const HookConfig& config);

}  // namespace p2pw
