#include "daemon/core/api_guard.h"

#include <sodium.h>

#include "protocol/ids.h"

namespace p2pw {
namespace {

constexpr std::size_t kMaxParameters = 64;

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      if (auto byte = from_hex(text.substr(i + 1, 2))) {
        out += static_cast<char>(byte->front());
        i += 2;
        continue;
      }
    }
    out += text[i] == '+' ? ' ' : text[i];
  }
  return out;
}

// "localhost:4712" and the like; nothing that merely begins or ends so.
bool is_loopback_host(std::string_view host) {
  const auto colon = host.starts_with('[') ? host.find("]:") : host.rfind(':');
  if (colon != std::string_view::npos) {
    const std::size_t digits = host.starts_with('[') ? colon + 2 : colon + 1;
    if (host.find_first_not_of("0123456789", digits) != std::string_view::npos) return false;
    host = host.substr(0, digits - 1);
  }
  return host == "localhost" || host == "127.0.0.1" || host == "[::1]";
}

bool same(std::string_view a, std::string_view b) {
  return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

ApiRefusal judge_request(const ApiHeaders& headers, bool tcp, std::string_view token) {
  const bool no_host = headers.host.empty() && !tcp;  // HTTP/1.0 over a unix socket
  if (!no_host && !is_loopback_host(headers.host)) return {403, "the Host header names another host"};
  if (headers.has_origin && headers.origin != "http://" + std::string(headers.host)) {
    return {403, "requests from other web pages are refused"};
  }
  if (!headers.fetch_site.empty() && headers.fetch_site != "same-origin" && headers.fetch_site != "none") {
    return {403, "requests from other web pages are refused"};
  }
  if (tcp && !token.empty() && !same(headers.authorization, "Bearer " + std::string(token))) {
    return {401, "send Authorization: Bearer TOKEN, as in [api] token"};
  }
  return {};
}

ApiRequest parse_target(std::string_view method, std::string_view target) {
  ApiRequest request;
  request.method = method;
  auto mark = target.find('?');
  request.path = percent_decoded(target.substr(0, mark));
  while (mark != std::string_view::npos && request.query.size() < kMaxParameters) {
    target.remove_prefix(mark + 1);
    mark = target.find('&');
    auto pair = target.substr(0, mark);
    auto equals = pair.find('=');
    std::string value = equals == std::string_view::npos ? "" : percent_decoded(pair.substr(equals + 1));
    request.query[percent_decoded(pair.substr(0, equals))] = value;
  }
  return request;
}

}  // namespace p2pw
