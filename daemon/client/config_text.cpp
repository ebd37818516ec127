#include "daemon/client/config.h"

namespace p2pw {
namespace {

std::string quoted(const std::string& text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out = "\"";
  for (char c : text) {
    auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (code < 0x20 || code == 0x7f) {
      out += "\\u00";
      out += kDigits[code >> 4];
      out += kDigits[code & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

// In the short form a value that is the default anyway is left out, and so is a section without values.
class Writer {
 public:
  explicit Writer(bool all) : all_(all) {}
  void section(const std::string& header) { section_ = "\n" + header + "\n"; }
  void raw(const std::string& line) {
    out_ += section_ + line + "\n";
    section_.clear();
  }
  void put(const char* key, const std::string& value) { raw(std::string(key) + " = " + quoted(value)); }
  void put(const char* key, bool value) { raw(std::string(key) + " = " + (value ? "true" : "false")); }
  void put(const char* key, std::uint64_t value) { raw(std::string(key) + " = " + std::to_string(value)); }
  template <class T>
  void put(const char* key, const T& value, const T& standard) {
    if (all_ || value != standard) put(key, value);
  }
  template <class T>
  void put_if(const char* key, const T& value, bool wanted) {
    if (wanted) put(key, value);
  }
  bool all() const { return all_; }
  std::string text() const { return out_; }

 private:
  bool all_;
  std::string section_;  // header still to be written
  std::string out_;
};

void write_node(Writer& w, const NodeConfig& node) {
  w.section("[node]");
  w.put("name", node.name);
  w.put("region", node.region.str());
  w.put("role", std::string(name_of(node.role)));
  w.put("bootstrap", node.bootstrap, false);
}

void write_listen(Writer& w, const ListenConfig& listen) {
  w.section("[listen]");
  w.put("address", listen.address);
  w.put("port", std::uint64_t{listen.port});
  w.put("swarm_port", std::uint64_t{listen.swarm_port});
  w.put_if("advertise", listen.advertise, !listen.advertise.empty());
}

void write_bootstrap(Writer& w, const BootstrapConfig& entry) {
  w.section("[[bootstrap]]");
  w.put("address", entry.address);
  w.put("port", std::uint64_t{entry.port});
  if (entry.key) w.put("key", entry.key->hex());
  w.put_if("region", entry.region.str(), !entry.region.empty());
  w.put_if("trainer", true, entry.trainer);
}

void write_hook(Writer& w, const std::string& channel, const HookConfig& hook) {
  HookConfig standard;
  auto seconds = [](std::chrono::seconds value) { return static_cast<std::uint64_t>(value.count()); };
  w.section("[channels." + quoted(channel) + ".hook]");
  w.put("kind", std::string(name_of(hook.kind)));
  w.put_if("url", hook.url, !hook.url.empty());
  w.put_if("token", hook.token, !hook.token.empty());
  w.put("remote", hook.remote, standard.remote);
  w.put_if("socket", hook.socket.string(), !hook.socket.empty());
  if (!hook.command.empty()) {
    std::string list;
    for (const std::string& word : hook.command) list += (list.empty() ? "" : ", ") + quoted(word);
    w.raw("command = [" + list + "]");
  }
  w.put_if("pause", hook.pause, !hook.pause.empty());
  w.put("flush", hook.flush, standard.flush);
  w.put("pass_path", hook.pass_path, standard.pass_path);
  w.put("verify", hook.verify, standard.verify);
  w.put("load_seconds", seconds(hook.load_time), seconds(standard.load_time));
  w.put("control_seconds", seconds(hook.control_time), seconds(standard.control_time));
  w.put("retries", std::uint64_t{hook.retries}, std::uint64_t{standard.retries});
  w.put("retry_seconds", seconds(hook.retry_time), seconds(standard.retry_time));
  w.put("watch_seconds", seconds(hook.watch_time), seconds(standard.watch_time));
}

void write_channel(Writer& w, const Config& config, const ChannelConfig& channel) {
  ChannelConfig standard;
  w.section("[channels." + quoted(channel.name.str()) + "]");
  w.put("publisher", channel.publisher.line());
  w.put("slots", std::uint64_t{channel.slots}, std::uint64_t{standard.slots});
  w.put("grace_seconds", static_cast<std::uint64_t>(channel.grace.count()),
        static_cast<std::uint64_t>(standard.grace.count()));
  w.put_if("root", config.channel_root(channel.name).string(), w.all() || !channel.root.empty());
  w.put("activate", text_of(channel.activate), text_of(standard.activate));
  w.put("activate_interval_seconds", static_cast<std::uint64_t>(channel.activate.interval.count()),
        static_cast<std::uint64_t>(standard.activate.interval.count()));
  if (channel.hook) write_hook(w, channel.name.str(), channel.hook);
}

void write_links(Writer& w, const Config& config) {
  Config standard;
  w.section("[links]");
  w.put("stripes", std::uint64_t{config.links.stripes}, std::uint64_t{standard.links.stripes});
  w.put("congestion", config.links.congestion, standard.links.congestion);
  w.put("wan_rate_limit_mbit", config.links.wan_rate_limit_mbit, standard.links.wan_rate_limit_mbit);
  w.section("[tree]");
  w.put("root_children", std::uint64_t{config.tree.root_children}, std::uint64_t{standard.tree.root_children});
  w.put("fan_out", std::uint64_t{config.tree.fan_out}, std::uint64_t{standard.tree.fan_out});
  w.section("[placement]");
  w.put("candidates", std::uint64_t{config.placement.candidates}, std::uint64_t{standard.placement.candidates});
}

void write_allow(Writer& w, const AllowConfig& entry) {
  w.section("[[allow]]");
  w.put("key", entry.key.hex());
  w.put_if("region", entry.region.str(), !entry.region.empty());
  w.put_if("trainer", true, entry.trainer);
  w.put_if("bootstrap", true, entry.bootstrap);
}

void write_api(Writer& w, const Config& config) {
  const ApiConfig& api = config.api;
  bool v6 = api.http_address.find(':') != std::string::npos;
  std::string host = v6 ? "[" + api.http_address + "]" : api.http_address;
  w.section("[api]");
  w.put_if("socket", config.api_socket().string(), w.all() || !api.socket.empty());
  w.put_if("publish_socket", config.publish_socket().string(), w.all() || !api.publish_socket.empty());
  w.put_if("http", host + ":" + std::to_string(api.http_port), !api.http_address.empty());
  w.put_if("token", api.token, !api.token.empty());
}

std::string write(const Config& config, bool all) {
  Writer w(all);
  w.put("state", config.state.string());
  w.put("threads", std::uint64_t{config.threads}, std::uint64_t{0});
  w.put_if("mirror", config.mirror.text, bool(config.mirror));
  w.put("mirror_write", config.mirror_write, true);
  w.put_if("mirror_credentials", config.mirror_credentials_file().string(), (w.all() && config.mirror) || !config.mirror_credentials.empty());
  write_node(w, config.node);
  write_listen(w, config.listen);
  for (const BootstrapConfig& entry : config.bootstrap) write_bootstrap(w, entry);
  for (const ChannelConfig& channel : config.channels) write_channel(w, config, channel);
  write_links(w, config);
  for (const AllowConfig& entry : config.allow) write_allow(w, entry);
  write_api(w, config);
  w.section("[log]");
  w.put("level", config.log.level, LogConfig().level);
  w.put("json", config.log.json, false);
  return w.text();
}

}  // namespace

std::string text_of(const ActivationPolicy& policy) {
  switch (policy.when) {
    case ActivationPolicy::When::at_once: return "auto";
    case ActivationPolicy::When::asked: return "asked";
    case ActivationPolicy::When::share: break;
  }
  return (policy.fleet ? "fleet " : "region ") + std::to_string(policy.percent) + "%";
}

std::string to_toml(const Config& config) { return write(config, true); }
std::string to_short_toml(const Config& config) { return write(config, false); }

std::string channel_toml(const Config& config, const Channel& channel) {
  Writer w(false);
  if (const ChannelConfig* found = config.channel(channel)) write_channel(w, config, *found);
  return w.text().substr(w.text().find_first_not_of('\n'));
}

}  // namespace p2pw
