// [channels.NAME.hook]: the engine that serves a channel's checkpoints on this machine, and how it is told. A value.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/result.h"

namespace p2pw {

enum class HookKind { none, sglang, vllm, webhook, socket, exec };
std::string_view name_of(HookKind kind);
Result<HookKind> parse_hook_kind(std::string_view name);

struct HookConfig {
  HookKind kind = HookKind::none;
  std::string url;                   // sglang, vllm, webhook: "http://127.0.0.1:30000"
  std::string token;                 // sent as a bearer token; empty = none
  bool remote = false;               // the URL may name another machine: whoever can connect there decides what it serves
  std::filesystem::path socket;      // socket: where the engine listens
  std::vector<std::string> command;  // exec: program and arguments; no shell
  std::string pause;                 // sglang: abort, retract, in_place; vllm: abort, wait, keep; empty = abort
  bool flush = true;                 // drop the cache of the old weights
  bool pass_path = true;             // vllm: name the folder; false: it was started on the link `current`
  bool verify = true;                // ask for its version afterwards; false: its answer to the load is enough
  std::chrono::seconds load_time{600};    // for one load
  std::chrono::seconds control_time{10};  // for any other question
  unsigned retries = 2;                   // further loads of the same version after one that failed
  std::chrono::seconds retry_time{5};     // before each of them
  std::chrono::seconds watch_time{10};    // how often it is asked what it serves; 0 = only after loads

  explicit operator bool() const { return kind != HookKind::none; }
  bool over_http() const { return kind == HookKind::sglang || kind == HookKind::vllm || kind == HookKind::webhook; }
  bool operator==(const HookConfig&) const = default;
};

struct EngineUrl {
  std::string host, port, path;  // path without a trailing slash
};
// "http://HOST[:PORT][/PATH]". Error: config.
Result<EngineUrl> parse_engine_url(std::string_view url);

}  // namespace p2pw
