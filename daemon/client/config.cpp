#include "daemon/client/config.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <set>

#include "daemon/client/files.h"
#include "daemon/client/toml_reader.h"
#include "protocol/limits.h"

namespace p2pw {
namespace {

constexpr std::size_t kMaxSocketPath = 107;  // sun_path of a unix socket, without its NUL
constexpr std::size_t kMinApiToken = 16;

bool is_ip_literal(const std::string& text) {
  unsigned char buffer[16];
  return inet_pton(AF_INET, text.c_str(), buffer) == 1 || inet_pton(AF_INET6, text.c_str(), buffer) == 1;
}

bool is_loopback(const std::string& text) { return text == "::1" || (is_ip_literal(text) && text.starts_with("127.")); }

bool is_host(const std::string& text) {
  if (is_ip_literal(text)) return true;
  if (text.empty() || text.size() > 253 || text.front() == '-' || text.front() == '.') return false;
  for (char c : text) {
    bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-';
    if (!good) return false;
  }
  return true;
}

std::string host_name() {
  char buffer[256] = {};
  if (gethostname(buffer, sizeof buffer - 1) != 0 || buffer[0] == '\0') return "p2pw";
  return buffer;
}

Result<NodeKey> parse_node_key(const std::string& text) {
  auto key = NodeKey::from_hex(text);
  if (!key) return fail(ErrorCode::config, "must be a node key: 64 hex digits, as `p2pw status` shows it");
  return *key;
}

Result<Role> parse_role(const std::string& text) {
  if (text == "node") return Role::node;
  if (text == "trainer") return Role::trainer;
  return fail(ErrorCode::config, "must be \"node\" or \"trainer\", not \"" + text + "\"");
}

void read_node(TomlTable& table, NodeConfig& node) {
  node.name = host_name();
  table.text("name", node.name);
  table.require("region");
  table.parsed("region", node.region, [](const std::string& s) { return Region::parse(s); });
  table.parsed("role", node.role, parse_role);
  table.flag("bootstrap", node.bootstrap);
  if (node.name.empty() || node.name.size() > limits::kMaxNameLength) table.wrong("name", "must have 1 to 64 characters");
}

void read_listen(TomlTable& table, const NodeConfig& node, ListenConfig& listen) {
  table.text("address", listen.address);
  table.integer("port", listen.port, 0, 65535);
  table.integer("swarm_port", listen.swarm_port, 0, 65535);
  table.text("advertise", listen.advertise);
  if (!is_ip_literal(listen.address)) table.wrong("address", "must be an IP address of this machine, like \"10.0.0.5\"");
  if (!listen.advertise.empty() && !is_host(listen.advertise)) table.wrong("advertise", "must be an address or host name");
  if (listen.port != 0 && listen.port == listen.swarm_port) table.wrong("swarm_port", "must differ from port");
  if (listen.wildcard() && listen.advertise.empty() && (node.role == Role::trainer || node.bootstrap)) {
    table.wrong("advertise", "is needed: a trainer or bootstrap daemon that listens on " + listen.address +
                                 " must say at which address others reach it");
  }
}

void read_bootstrap(TomlTable& table, BootstrapConfig& entry) {
  table.require("address");
  table.text("address", entry.address);
  table.integer("port", entry.port, 1, 65535);
  table.parsed("key", entry.key, [](const std::string& s) -> Result<std::optional<NodeKey>> {
    P2PW_TRY(NodeKey key, parse_node_key(s));
    return std::optional<NodeKey>(key);
  });
  table.parsed("region", entry.region, [](const std::string& s) { return Region::parse(s); });
  table.flag("trainer", entry.trainer);
  if (!is_host(entry.address)) table.wrong("address", "must be an address or host name");
}

void check_hook(TomlTable& table, const HookConfig& hook) {
  static const std::set<std::string> kSglang = {"", "abort", "retract", "in_place"}, kVllm = {"", "abort", "wait", "keep"};
  if (hook.over_http()) {
    auto url = parse_engine_url(hook.url);
    if (!url) return table.wrong("url", url.error().message);
    if (!is_loopback(url->host) && url->host != "localhost" && !hook.remote) {
      return table.wrong("url", "names another machine, where anybody who can connect decides what it serves: use a loopback "
                                "address, or remote = true on a network that nobody else reaches");
    }
  }
  if (hook.kind == HookKind::socket && (hook.socket.empty() || hook.socket.string().size() > kMaxSocketPath)) {
    return table.wrong("socket", "must be the path of the engine's unix socket, of at most 107 characters");
  }
  if (hook.kind == HookKind::exec && (hook.command.empty() || !std::filesystem::path(hook.command.front()).is_absolute())) {
    return table.wrong("command", "must be a list: an absolute path of a program, and its arguments");
  }
  if (hook.kind == HookKind::sglang && !kSglang.contains(hook.pause)) {
    return table.wrong("pause", "must be \"abort\", \"retract\" or \"in_place\" for SGLang");
  }
  if (hook.kind == HookKind::vllm && !kVllm.contains(hook.pause)) {
    return table.wrong("pause", "must be \"abort\", \"wait\" or \"keep\" for vLLM");
  }
  if (hook.kind == HookKind::sglang && hook.pause == "in_place" && hook.flush) {
    table.wrong("flush", "must be false with pause = \"in_place\": SGLang refuses to flush while requests are held");
  }
}

void read_hook(TomlTable& table, const std::filesystem::path& base, HookConfig& hook) {
  table.require("kind");
  table.parsed("kind", hook.kind, [](const std::string& s) { return parse_hook_kind(s); });
  std::string socket;
  table.text("url", hook.url);
  table.text("token", hook.token);
  table.flag("remote", hook.remote);
  table.text("socket", socket);
  if (!socket.empty()) hook.socket = base / socket;
  table.texts("command", hook.command);
  table.text("pause", hook.pause);
  table.flag("flush", hook.flush);
  table.flag("pass_path", hook.pass_path);
  table.flag("verify", hook.verify);
  auto seconds = [&table](const char* key, std::chrono::seconds& value, std::uint64_t low) {
    std::uint64_t number = static_cast<std::uint64_t>(value.count());
    table.integer(key, number, low, 86'400);
    value = std::chrono::seconds(number);
  };
  seconds("load_seconds", hook.load_time, 1);
  seconds("control_seconds", hook.control_time, 1);
  seconds("retry_seconds", hook.retry_time, 0);
  seconds("watch_seconds", hook.watch_time, 0);
  table.integer("retries", hook.retries, 0, 100);
  for (char c : hook.token) {
    if (c < 0x21 || c > 0x7e) return table.wrong("token", "must be printable, without spaces");
  }
  check_hook(table, hook);
}

Result<ActivationPolicy> parse_activate(const std::string& text) {
  using When = ActivationPolicy::When;
  if (text == "auto") return ActivationPolicy{};
  if (text == "asked") return ActivationPolicy{.when = When::asked};
  unsigned percent = 0;
  char scope[8] = {}, sign = 0, rest = 0;
  const int read = std::sscanf(text.c_str(), "%7[a-z] %3u%c%c", scope, &percent, &sign, &rest);
  const bool fleet = std::string_view(scope) == "fleet";
  if (read == 3 && sign == '%' && percent >= 1 && percent <= 100 && (fleet || std::string_view(scope) == "region")) {
    return ActivationPolicy{.when = When::share, .percent = percent, .fleet = fleet};
  }
  return fail(ErrorCode::config, "must be \"auto\", \"asked\", or a share of the nodes like \"region 80%\" or \"fleet 95%\", "
                                 "not \"" + text + "\"");
}

void read_channel(const std::string& name, TomlTable& table, const std::filesystem::path& base, ChannelConfig& channel) {
  auto parsed_name = Channel::parse(name);
  if (parsed_name) {
    channel.name = parsed_name.value();
  } else {
    table.wrong("publisher", parsed_name.error().message);
  }
  table.require("publisher");
  table.parsed("publisher", channel.publisher, [](const std::string& s) { return VerifyingKey::parse(s); });
  table.integer("slots", channel.slots, 1, 2);
  std::uint64_t grace = static_cast<std::uint64_t>(channel.grace.count());
  table.integer("grace_seconds", grace, 0, 3600);
  channel.grace = std::chrono::seconds(grace);
  std::string root;
  table.text("root", root);
  if (!root.empty()) channel.root = base / root;
  table.parsed("activate", channel.activate, parse_activate);
  std::uint64_t interval = static_cast<std::uint64_t>(channel.activate.interval.count());
  table.integer("activate_interval_seconds", interval, 0, 86'400);
  channel.activate.interval = std::chrono::seconds(interval);
  if (table.has("hook")) table.table("hook", [&](TomlTable& t) { read_hook(t, base, channel.hook); });
}

void read_links(TomlTable& table, LinksConfig& links) {
  table.integer("stripes", links.stripes, 1, 64);
  table.text("congestion", links.congestion);
  table.integer("wan_rate_limit_mbit", links.wan_rate_limit_mbit, 0, 10'000'000);
  bool plain = !links.congestion.empty() && links.congestion.size() <= 15;
  for (char c : links.congestion) plain = plain && ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-');
  if (!plain) table.wrong("congestion", "must be \"auto\" or the name of a congestion control, like \"bbr\"");
}

void read_allow(TomlTable& table, AllowConfig& entry) {
  table.require("key");
  table.parsed("key", entry.key, parse_node_key);
  table.parsed("region", entry.region, [](const std::string& s) { return Region::parse(s); });
  table.flag("trainer", entry.trainer);
  table.flag("bootstrap", entry.bootstrap);
}

void read_http(TomlTable& table, ApiConfig& api) {
  std::string http;
  table.text("http", http);
  table.text("token", api.token);
  if (http.empty()) return;
  std::size_t colon = http.rfind(':');
  std::string host = http.substr(0, colon == std::string::npos ? 0 : colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  std::string digits = colon == std::string::npos ? "" : http.substr(colon + 1);
  bool number = !digits.empty() && digits.size() <= 5 && digits.find_first_not_of("0123456789") == std::string::npos;
  unsigned long port = number ? std::stoul(digits) : 0;
  if (!is_loopback(host) || port == 0 || port > 65535) {
    return table.wrong("http", "must be a loopback address with a port, like \"127.0.0.1:4712\"");
  }
  if (api.token.size() < kMinApiToken) {
    return table.wrong("token", "is needed with http, of at least 16 characters: any user of this machine can connect");
  }
  api.http_address = host;
  api.http_port = static_cast<std::uint16_t>(port);
}

void read_api(TomlTable& table, const std::filesystem::path& base, ApiConfig& api) {
  std::string socket, publish_socket;
  table.text("socket", socket);
  table.text("publish_socket", publish_socket);
  if (!socket.empty()) api.socket = base / socket;
  if (!publish_socket.empty()) api.publish_socket = base / publish_socket;
  read_http(table, api);
}

void read_log(TomlTable& table, LogConfig& log) {
  static const std::set<std::string> kLevels = {"trace", "debug", "info", "warn", "error"};
  table.text("level", log.level);
  table.flag("json", log.json);
  if (!kLevels.contains(log.level)) table.wrong("level", "must be trace, debug, info, warn or error");
}

void check_whole(TomlTable& top, const Config& config) {
  if (config.node.role == Role::node && !config.node.bootstrap && config.bootstrap.empty()) {
    top.wrong("bootstrap", "names nobody to ask for the fleet: add [[bootstrap]] with the trainer's or the region's "
                           "bootstrap daemon (`p2pw join` writes it)");
  }
  std::set<NodeKey> keys;
  for (const AllowConfig& entry : config.allow) {
    if (!keys.insert(entry.key).second) top.wrong("allow", "names the key " + entry.key.hex() + " twice");
  }
  for (const ChannelConfig& channel : config.channels) {
    if (config.node.role == Role::trainer && channel.hook) {
      top.wrong("channels", "a trainer has no hook: the engine of channel " + channel.name.str() + " belongs to a node of its own");
    }
  }
  for (const auto& socket : {config.api_socket(), config.publish_socket()}) {
    if (socket.string().size() <= kMaxSocketPath) continue;
    top.wrong("api", "the socket path " + socket.string() + " is longer than the 107 characters that unix sockets allow: " +
                         "set socket and publish_socket, or a shorter state folder");
  }
}

void read_mirror(TomlTable& top, const std::filesystem::path& base, Config& config) {
  std::string credentials;
  top.parsed("mirror", config.mirror, [](const std::string& s) { return parse_mirror_url(s); });
  top.flag("mirror_write", config.mirror_write);
  top.text("mirror_credentials", credentials);
  if (!credentials.empty()) config.mirror_credentials = base / credentials;
}

void read_all(TomlTable& top, const std::filesystem::path& base, Config& config) {
  std::string state = config.state.string();
  top.text("state", state);
  config.state = base / state;
  if (state.empty()) top.wrong("state", "must be a folder");
  top.integer("threads", config.threads, 0, 1024);
  read_mirror(top, base, config);
  top.require("node");
  top.table("node", [&](TomlTable& t) { read_node(t, config.node); });
  top.table("listen", [&](TomlTable& t) { read_listen(t, config.node, config.listen); });
  top.each_table("bootstrap", [&](TomlTable& t) { read_bootstrap(t, config.bootstrap.emplace_back()); });
  top.each_named("channels", [&](const std::string& name, TomlTable& t) {
    read_channel(name, t, base, config.channels.emplace_back());
  });
  top.table("links", [&](TomlTable& t) { read_links(t, config.links); });
  top.table("tree", [&](TomlTable& t) {
    t.integer("root_children", config.tree.root_children, 1, 64);
    t.integer("fan_out", config.tree.fan_out, 1, 64);
  });
  top.table("placement", [&](TomlTable& t) { t.integer("candidates", config.placement.candidates, 1, 64); });
  top.each_table("allow", [&](TomlTable& t) { read_allow(t, config.allow.emplace_back()); });
  top.table("api", [&](TomlTable& t) { read_api(t, base, config.api); });
  top.table("log", [&](TomlTable& t) { read_log(t, config.log); });
  check_whole(top, config);
  top.finish();
}

}  // namespace

std::string_view name_of(Role role) { return role == Role::trainer ? "trainer" : "node"; }

const ChannelConfig* Config::channel(const Channel& name) const {
  for (const ChannelConfig& c : channels) {
    if (c.name == name) return &c;
  }
  return nullptr;
}

std::filesystem::path Config::channel_root(const Channel& name) const {
  const ChannelConfig* c = channel(name);
  return c != nullptr && !c->root.empty() ? c->root : paths().channel(name);
}

std::filesystem::path Config::api_socket() const { return api.socket.empty() ? paths().api_socket() : api.socket; }

std::filesystem::path Config::publish_socket() const {
  return api.publish_socket.empty() ? paths().publish_socket() : api.publish_socket;
}

std::filesystem::path Config::mirror_credentials_file() const {
  return mirror_credentials.empty() ? paths().mirror_credentials() : mirror_credentials;
}

Result<Config> parse_config(std::string_view text, const std::string& origin) {
  if (text.size() > limits::kMaxConfigBytes) return fail(ErrorCode::config, origin + ": is larger than 1 MiB");
  TomlProblem problem(origin);
  try {
    toml::table parsed = toml::parse(text, std::string_view(origin));
    Config config;
    config.file = origin;
    TomlTable top(&parsed, "", problem);
    read_all(top, std::filesystem::path(origin).parent_path(), config);
    if (problem.found()) return *problem.error();
    return config;
  } catch (const toml::parse_error& error) {
    return fail(ErrorCode::config, origin + ":" + std::to_string(error.source().begin.line) + ": is not TOML: " +
                                       std::string(error.description()));
  }
}

Result<Config> load_config(const std::filesystem::path& file) {
  P2PW_TRY(std::string text, read_small_file(file, limits::kMaxConfigBytes));
  return parse_config(text, file.string());
}

Status save_config(const Config& config, const std::filesystem::path& file, bool replace) {
  std::error_code ignored;
  if (!replace && std::filesystem::exists(file, ignored)) {
    return fail(ErrorCode::usage, file.string() + " is there already: this machine has been set up; `p2pw channel "
                                                  "add` adds a channel; give --force to write it anew, or --config for another file");
  }
  return write_small_file(file, to_short_toml(config), 0640, 0755);
}

}  // namespace p2pw
