#include "daemon/core/api_server.h"

#include <gtest/gtest.h>
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <thread>

#include "tests/support/temp_dir.h"

namespace p2pw {
namespace {

class ApiServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto handler = [this](ApiRequest request, ApiServer::Reply reply) {
      last = request;
      reply({200, "\"" + request.path + "\""});
    };
    auto started = ApiServer::start(io, {dir / "api.sock", "", 0, ""}, handler);
    ASSERT_TRUE(started.ok()) << started.error().message;
    server = std::move(*started);
    thread = std::thread([this] { io.run(); });
  }
  void TearDown() override {
    io.post([this] { server.reset(); });
    io.post([this] { io.stop(); });
    thread.join();
  }
  // Everything that the server says until it hangs up.
  template <class Address>
  static std::string ask_at(const Address& address, const std::string& text) {
    const auto* general = reinterpret_cast<const sockaddr*>(&address);
    int fd = socket(general->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(connect(fd, general, sizeof address), 0);
    EXPECT_EQ(::send(fd, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
    std::string answer;
    char buffer[4096];
    for (ssize_t n; (n = ::read(fd, buffer, sizeof buffer)) > 0;) answer.append(buffer, static_cast<std::size_t>(n));
    close(fd);
    return answer;
  }
  std::string ask(const std::string& text) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, (dir / "api.sock").c_str(), sizeof address.sun_path - 1);
    return ask_at(address, text);
  }
  static std::string get(const std::string& target, const std::string& more = "") {
    return "GET " + target + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + more + "\r\n";
  }

  testing::TempDir dir;
  boost::asio::io_context io;
  std::unique_ptr<ApiServer> server;
  std::thread thread;
  ApiRequest last;
};

TEST_F(ApiServerTest, AnswersOnAndOn) {
  for (int i = 0; i < 600; ++i) {  // more than it takes at once: each must be let go
    ASSERT_NE(ask(get("/v1/status")).find("200 OK"), std::string::npos) << "request " << i;
  }
}

TEST_F(ApiServerTest, DecodesPathAndQuery) {
  EXPECT_NE(ask(get("/v1/log%2Fx?channel=a%20b&limit=7&flag")).find("200 OK"), std::string::npos);
  EXPECT_EQ(last.path, "/v1/log/x");
  EXPECT_EQ(last.query["channel"], "a b");
  EXPECT_EQ(last.query["limit"], "7");
  EXPECT_EQ(last.query.count("flag"), 1u);
}

TEST_F(ApiServerTest, RefusesWebPages) {
  EXPECT_NE(ask("GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n").find("403"), std::string::npos);
  EXPECT_NE(ask("POST /v1/tokens HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\nConnection: close\r\n"
                "Content-Length: 0\r\n\r\n")
                .find("403"),
            std::string::npos);
}

TEST_F(ApiServerTest, OverTcpOnlyOpenPathsNeedNoToken) {
  testing::TempDir other;
  boost::asio::io_context own;
  auto handler = [](ApiRequest, ApiServer::Reply reply) { reply({200, "fine"}); };
  auto started = ApiServer::start(own, {other / "api.sock", "127.0.0.1", 0, "a token of some length", {"/"}}, handler);
  ASSERT_TRUE(started.ok()) << started.error().message;
  std::uint16_t port = (*started)->http_port();
  std::thread serving([&] { own.run(); });
  auto ask_tcp = [&](const std::string& text) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return ask_at(address, text);
  };
  EXPECT_NE(ask_tcp(get("/?x=1")).find("200 OK"), std::string::npos);
  EXPECT_NE(ask_tcp(get("/v1/status")).find("401"), std::string::npos);
  EXPECT_NE(ask_tcp(get("//")).find("401"), std::string::npos);
  EXPECT_NE(ask_tcp("POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").find("401"), std::string::npos);
  EXPECT_NE(ask_tcp(get("/v1/status", "Authorization: Bearer a token of some length\r\n")).find("200 OK"), std::string::npos);
  own.post([&] {
    started->reset();
    own.stop();
  });
  serving.join();
}

TEST_F(ApiServerTest, SecondServerOnTheSameSocketIsBusyAndADeadSocketIsReplaced) {
  auto second = ApiServer::start(io, {dir / "api.sock", "", 0, ""}, {});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::busy);
  int fd = *listen_unix(dir / "other.sock");
  close(fd);  // nobody answers any more, the file is still there
  EXPECT_TRUE(listen_unix(dir / "other.sock").ok());
}

// A path may hold any bytes, and the answer names it.
TEST(ApiResponses, BytesThatAreNoTextAreReplaced) {
  ApiResponse response = error_response(fail(ErrorCode::not_found, "no such resource: GET /\xff"));
  EXPECT_EQ(response.status, 404);
  EXPECT_NE(response.body.find("no such resource: GET /"), std::string::npos);
}

}  // namespace
}  // namespace p2pw
