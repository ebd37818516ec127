#include "daemon/client/api.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace p2pw::api {
namespace {

StatusReply sample() {
  StatusReply status;
  status.node = std::string(64, 'a');
  status.region = "eu";
  status.started_ms = 1;
  status.now_ms = UINT64_MAX;
  ChannelStatus& channel = status.channels.emplace_back();
  channel.channel = "policy";
  channel.version_sealed = 7;
  channel.publishing = true;
  NodeStatus& node = status.nodes.emplace_back();
  node.node = "ab";
  node.lag_seconds = 1.5;
  status.links.emplace_back().round_trip_ms = 86.25;
  status.copies.emplace_back().payload_bytes = 10;
  return status;
}

TEST(Api, StatusSurvivesTheRoundTrip) {
  Json json = to_json(sample());
  auto again = parse<StatusReply>(json.dump());
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(to_json(*again), json);
  EXPECT_EQ(again->channels.at(0).version_sealed, 7u);
  EXPECT_EQ(again->nodes.at(0).lag_seconds, 1.5);
  EXPECT_EQ(again->now_ms, UINT64_MAX);
}

TEST(Api, TheKeysThatScriptsUseAreThere) {
  Json json = to_json(sample());
  for (const char* key : {"node", "name", "region", "role", "software", "channels", "nodes", "links", "copies"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  for (const char* key : {"node", "channel", "region", "version_staged", "version_active", "state", "lag_seconds"}) {
    EXPECT_TRUE(json["nodes"][0].contains(key)) << key;
  }
  for (const char* key : {"active", "total"}) EXPECT_TRUE(to_json(WaitReply{}).contains(key)) << key;
  EXPECT_TRUE(to_json(TokenReply{}).contains("token"));
}

TEST(Api, AbsentAndUnknownKeysAreFine) {
  auto reply = parse<WaitReply>(R"({"active": 3, "future": [1, {}], "total": null})");
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->active, 3u);
  EXPECT_EQ(reply->total, 0u);
}

TEST(Api, WrongTypesAreNamed) {
  EXPECT_EQ(parse<WaitReply>(R"({"active": "3"})").error().message, "JSON: body.active is not a whole number");
  EXPECT_EQ(parse<WaitReply>(R"({"active": -3})").error().code, ErrorCode::malformed);
  EXPECT_EQ(parse<WaitReply>(R"({"done": 1})").error().message, "JSON: body.done is not true or false");
  EXPECT_EQ(parse<TokenRequest>(R"({"uses": 4294967296})").error().code, ErrorCode::malformed);
  EXPECT_EQ(parse<StatusReply>(R"({"nodes": [{"lag_seconds": []}]})").error().message,
            "JSON: body.nodes.lag_seconds is not a number");
  EXPECT_EQ(parse<StatusReply>(R"({"nodes": [3]})").error().code, ErrorCode::malformed);
  EXPECT_EQ(parse<StatusReply>("[]").error().code, ErrorCode::malformed);
  EXPECT_EQ(parse<StatusReply>("{").error().code, ErrorCode::malformed);
}

TEST(Api, ErrorsTravel) {
  for (ErrorCode code : {ErrorCode::busy, ErrorCode::not_found, ErrorCode::wrong_parent, ErrorCode::interrupted}) {
    Error error = error_from_text(to_json(fail(code, "why")).dump(), http_status_of(code));
    EXPECT_EQ(error.code, code);
    EXPECT_EQ(error.message, "why");
    EXPECT_GE(http_status_of(code), 400);
  }
  EXPECT_EQ(error_from_text("<html>", 502).code, ErrorCode::failed);
  EXPECT_EQ(error_from_text(R"({"error": {"code": 7}})", 500).code, ErrorCode::failed);
  EXPECT_EQ(code_from_name("no_space"), ErrorCode::no_space);
}

}  // namespace
}  // namespace p2pw::api
