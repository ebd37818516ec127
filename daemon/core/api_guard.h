// What of an HTTP request decides whether it is listened to at all, and how its target is read. Pure.
//
// A web page that the user of this machine looks at can make the browser send requests to loopback, and can give a name
// of its own the address 127.0.0.1. So the Host must be a loopback name, and what a browser says of the page that asks
// (Origin, Sec-Fetch-Site) must be this very server.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace p2pw {

struct ApiRequest {
  std::string method;                        // "GET"
  std::string path;                          // "/v1/status", percent-decoded
  std::map<std::string, std::string> query;  // decoded
  std::string body;
  std::string deployment;                    // of the header fireworks-deployment: /hot_load
};

struct ApiHeaders {
  std::string_view host, origin, fetch_site, authorization;
  bool has_origin = false;  // an empty or "null" one is one, too
};

// Empty: go on. Otherwise why not. `tcp`: not over a unix socket, where the token counts and a Host must be there.
struct ApiRefusal {
  int status = 0;
  const char* why = "";
  explicit operator bool() const { return status != 0; }
};
ApiRefusal judge_request(const ApiHeaders& headers, bool tcp, std::string_view token);

// Splits and decodes a request's target. At most 64 parameters are kept.
ApiRequest parse_target(std::string_view method, std::string_view target);

}  // namespace p2pw
