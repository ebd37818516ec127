#include "daemon/client/api_client.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/fake_daemon.h"

namespace p2pw {
namespace {

using testing::FakeDaemon;

Channel channel() { return Channel::parse("policy.v2").value(); }

ApiResponse json(const Json& object) { return {200, object.dump(), "application/json"}; }

TEST(ApiClient, AsksForTheStatus) {
  FakeDaemon daemon([](const ApiRequest& request) {
    EXPECT_EQ(request.method, "GET");
    EXPECT_EQ(request.path, "/v1/status");
    api::StatusReply reply;
    reply.name = "trainer";
    api::NodeStatus node;
    node.node = std::string(64, 'a');
    reply.nodes.resize(2000, node);
    return json(api::to_json(reply));
  });
  auto status = ApiClient(daemon.socket()).status();
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(status->name, "trainer");
  EXPECT_EQ(status->nodes.size(), 2000u);
}

TEST(ApiClient, PutsTheQuestionIntoThePath) {
  FakeDaemon daemon([](const ApiRequest&) { return json(Json::object()); });
  ApiClient client(daemon.socket());
  ASSERT_TRUE(client.wait({channel(), 7, 95, true, std::chrono::milliseconds(1500)}).ok());
  ASSERT_TRUE(client.log({.channel = "a&b=c", .after = 3, .limit = 10}).ok());
  ASSERT_TRUE(client.make_token({8, ""}).ok());
  ASSERT_TRUE(client.activate(channel(), {5}).ok());
  ASSERT_TRUE(client.rollback(channel()).ok());
  ASSERT_TRUE(client.release(channel()).ok());
  auto requests = daemon.requests();
  ASSERT_EQ(requests.size(), 6u);
  EXPECT_EQ(requests[0].path, "/v1/channels/policy.v2/wait");
  EXPECT_EQ(requests[0].query, (std::map<std::string, std::string>{
                                   {"version", "7"}, {"percent", "95"}, {"of", "live"}, {"timeout", "1.500"}}));
  EXPECT_EQ(requests[1].query.at("channel"), "a&b=c");
  EXPECT_EQ(requests[2].method, "POST");
  EXPECT_EQ(Json::parse(requests[2].body)["uses"], 8);
  EXPECT_EQ(requests[3].path, "/v1/channels/policy.v2/activate");
  EXPECT_EQ(Json::parse(requests[3].body)["version"], 5);
  EXPECT_EQ(requests[4].path, "/v1/channels/policy.v2/rollback");
  EXPECT_EQ(requests[5].path, "/v1/channels/policy.v2/release");
}

TEST(ApiClient, PassesErrorsOn) {
  FakeDaemon daemon([](const ApiRequest&) {
    return ApiResponse{409, api::to_json(fail(ErrorCode::busy, "a seed holds the lock")).dump()};
  });
  Error error = ApiClient(daemon.socket()).status().error();
  EXPECT_EQ(error.code, ErrorCode::busy);
  EXPECT_EQ(error.message, "a seed holds the lock");
}

TEST(ApiClient, AnswersThatAreNoJsonAreMalformed) {
  FakeDaemon daemon([](const ApiRequest&) { return ApiResponse{200, "<html>"}; });
  EXPECT_EQ(ApiClient(daemon.socket()).status().error().code, ErrorCode::malformed);
}

TEST(ApiClient, NobodyListens) {
  testing::TempDir dir;
  Error error = ApiClient(dir / "api.sock").status().error();
  EXPECT_EQ(error.code, ErrorCode::unreachable);
  EXPECT_NE(error.message.find((dir / "api.sock").string()), std::string::npos);
  EXPECT_EQ(ApiClient(std::string(300, 'x')).status().error().code, ErrorCode::unreachable);
}

TEST(ApiClient, ASilentDaemonTimesOut) {
  FakeDaemon daemon([](const ApiRequest&) { return ApiResponse{}; });
  daemon.hang();
  EXPECT_EQ(ApiClient(daemon.socket()).get("/v1/status", std::chrono::milliseconds(50)).error().code, ErrorCode::timed_out);
}

TEST(ApiClient, CancelEndsTheWait) {
  FakeDaemon daemon([](const ApiRequest&) { return ApiResponse{}; });
  daemon.hang();
  ApiClient client(daemon.socket(), [&] { return !daemon.requests().empty(); });
  EXPECT_EQ(client.status().error().code, ErrorCode::interrupted);
}

}  // namespace
}  // namespace p2pw
