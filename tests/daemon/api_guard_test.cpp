#include "daemon/core/api_guard.h"

#include <gtest/gtest.h>

namespace p2pw {
namespace {

const std::string kToken = "0123456789abcdef";

ApiHeaders from_browser(std::string_view host, std::string_view origin, std::string_view site = "") {
  return {host, origin, site, "Bearer 0123456789abcdef", true};
}
int status(const ApiHeaders& headers, bool tcp = true) { return judge_request(headers, tcp, kToken).status; }

TEST(ApiGuard, LoopbackNamesAndNothingThatLooksLikeOne) {
  for (const char* host : {"localhost", "localhost:4712", "127.0.0.1", "127.0.0.1:4712", "[::1]", "[::1]:4712"}) {
    EXPECT_EQ(status({host, "", "", "Bearer 0123456789abcdef", false}), 0) << host;
  }
  for (const char* host : {"", "evil.example", "localhost.evil.example", "localhost:evil", "127.0.0.1.evil.example",
                           "[::1].evil.example", "[::1]evil", "evil.example:4712", "localhost:4712:x", "[::1", "::1"}) {
    EXPECT_EQ(status({host, "", "", "Bearer 0123456789abcdef", false}), 403) << host;
  }
  EXPECT_EQ(status({"", "", "", "", false}, false), 0) << "HTTP/1.0 over the unix socket";
}

TEST(ApiGuard, OnlyItsOwnPage) {
  EXPECT_EQ(status(from_browser("localhost:4712", "http://localhost:4712")), 0);
  for (const char* origin : {"http://evil.example", "null", "", "https://localhost:4712", "http://localhost:9999",
                             "http://localhost:4712.evil.example"}) {
    EXPECT_EQ(status(from_browser("localhost:4712", origin)), 403) << origin;
    EXPECT_EQ(status(from_browser("localhost:4712", origin), false), 403) << origin;
  }
  EXPECT_EQ(status({"localhost:4712", "", "cross-site", "Bearer 0123456789abcdef", false}), 403);
  EXPECT_EQ(status({"localhost:4712", "", "same-site", "Bearer 0123456789abcdef", false}), 403);
  EXPECT_EQ(status({"localhost:4712", "", "same-origin", "Bearer 0123456789abcdef", false}), 0);
}

TEST(ApiGuard, OverTcpTheTokenIsNeeded) {
  for (const char* given : {"", "Bearer", "Bearer ", "Bearer 0123456789abcdeF", "Bearer 0123456789abcdef0",
                            "Basic 0123456789abcdef"}) {
    EXPECT_EQ(status({"localhost", "", "", given, false}), 401) << given;
  }
  EXPECT_EQ(status({"localhost", "", "", "", false}, false), 0) << "the socket's group decides";
}

TEST(ApiGuard, ParametersAreBounded) {
  std::string target = "/v1/log?";
  for (int i = 0; i < 1000; ++i) target += "k" + std::to_string(i) + "=v&";
  EXPECT_EQ(parse_target("GET", target).query.size(), 64u);
}

}  // namespace
}  // namespace p2pw
