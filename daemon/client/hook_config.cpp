#include "daemon/client/hook_config.h"

#include "protocol/limits.h"

namespace p2pw {
namespace {

constexpr struct {
  HookKind kind;
  std::string_view name;
} kKinds[] = {{HookKind::none, "none"},       {HookKind::sglang, "sglang"}, {HookKind::vllm, "vllm"},
              {HookKind::webhook, "webhook"}, {HookKind::socket, "socket"}, {HookKind::exec, "exec"}};

bool plain(std::string_view text, std::string_view more) {
  for (char c : text) {
    bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || more.find(c) != more.npos;
    if (!good) return false;
  }
  return true;
}

}  // namespace

std::string_view name_of(HookKind kind) {
  for (auto& row : kKinds) {
    if (row.kind == kind) return row.name;
  }
  return "";
}

Result<HookKind> parse_hook_kind(std::string_view name) {
  for (auto& row : kKinds) {
    if (row.name == name) return row.kind;
  }
  return fail(ErrorCode::config, "must be sglang, vllm, webhook, socket or exec, not \"" + std::string(name) + "\"");
}

Result<EngineUrl> parse_engine_url(std::string_view url) {
  Error wrong = fail(ErrorCode::config, "must be like \"http://127.0.0.1:30000\"");
  constexpr std::string_view kScheme = "http://";
  if (!url.starts_with(kScheme)) return wrong;
  url.remove_prefix(kScheme.size());
  EngineUrl parsed;
  auto slash = url.find('/');
  std::string_view place = url.substr(0, slash);
  if (slash != url.npos) parsed.path = url.substr(slash);
  while (parsed.path.ends_with('/')) parsed.path.pop_back();
  std::string_view host = place, port = "80";
  auto bracket = place.find(']');
  auto colon = place.find(':', bracket == place.npos ? 0 : bracket);
  if (colon != place.npos) {
    host = place.substr(0, colon);
    port = place.substr(colon + 1);
  }
  if (bracket != place.npos) {
    if (!host.starts_with('[') || !host.ends_with(']')) return wrong;
    host = host.substr(1, host.size() - 2);
  }
  bool number = !port.empty() && port.size() <= 5 && plain(port, "") && port.find_first_not_of("0123456789") == port.npos;
  if (!number || std::stoul(std::string(port)) == 0 || std::stoul(std::string(port)) > 65535) return wrong;
  if (host.empty() || !plain(host, ".-:") || !plain(parsed.path, "/._-~%")) return wrong;
  parsed.host = host;
  parsed.port = port;
  return parsed;
}

}  // namespace p2pw
