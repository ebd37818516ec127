// Where a daemon accepts links or its swarm listens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace p2pw {

struct Endpoint {
  std::string host;  // IP literal, IPv6 without brackets, or host name
  std::uint16_t port = 0;
  auto operator<=>(const Endpoint&) const = default;
  std::string str() const;  // "10.0.0.1:7733", "[::1]:7733"
};

// 1 to 253 characters of those that IP literals (with a zone) and host names are made of: nothing that could change the
// meaning of a log line, a shell word or a URL.
bool is_host(std::string_view text);

}  // namespace p2pw
