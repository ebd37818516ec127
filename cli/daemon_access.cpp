#include "cli/daemon_access.h"

#include <cstdlib>

#include "cli/verb.h"

namespace p2pw {

Result<Config> daemon_config(const Console& console) {
  auto config = console.config();
  if (!config && config.error().code == ErrorCode::not_found) {
    return fail(ErrorCode::unreachable, "no daemon here: " + config.error().message);
  }
  return config;
}

Result<ApiClient> connect_daemon(const Console& console) {
  P2PW_TRY(Config config, daemon_config(console));
  catch_interrupts();
  return ApiClient(config.api_socket(), interrupted);
}

Result<Channel> chosen_channel(const Console& console, const std::string& given) {
  if (!given.empty()) return Channel::parse(given);
  P2PW_TRY(Config config, daemon_config(console));
  if (config.channels.size() == 1) return config.channels.front().name;
  std::string names;
  for (const ChannelConfig& channel : config.channels) names += (names.empty() ? "" : ", ") + channel.name.str();
  return fail(ErrorCode::usage, "name the channel with --channel" + (names.empty() ? names : "; configured: " + names));
}

Result<double> parse_percent(const std::string& text) {
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  bool whole = end != text.c_str() && (*end == '\0' || (*end == '%' && end[1] == '\0'));
  if (!whole || !(value > 0) || !(value <= 100)) {
    return fail(ErrorCode::usage, "\"" + text + "\" is no share: give more than 0% and up to 100%, like 95%");
  }
  return value;
}

}  // namespace p2pw
