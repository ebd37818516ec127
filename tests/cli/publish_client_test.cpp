#include "daemon/client/publish_client.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "protocol/publish.pb.h"
#include "tests/support/temp_dir.h"

namespace p2pw {
namespace {

using std::chrono::seconds;

struct Pair {
  int ends[2] = {-1, -1};
  Pair() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0); }
  PublishClient left(std::function<bool()> cancelled = {}) { return PublishClient::adopt(ends[0], std::move(cancelled)); }
  PublishClient right() { return PublishClient::adopt(ends[1]); }
};

wire::PublishMessage staged(std::uint64_t version) {
  wire::PublishMessage message;
  message.mutable_staged()->set_version(version);
  return message;
}
wire::PublishMessage error(const std::string& code, const std::string& text) {
  wire::PublishMessage message;
  message.mutable_error()->set_code(code);
  message.mutable_error()->set_message(text);
  return message;
}

TEST(PublishClient, CarriesMessagesAndPayloads) {
  Pair pair;
  PublishClient left = pair.left(), right = pair.right();
  Bytes payload(300'000, std::byte{7});
  std::thread sender([&] {
    EXPECT_TRUE(left.send(staged(1), payload).ok());
    EXPECT_TRUE(left.send(staged(2)).ok());
  });
  wire::PublishMessage message;
  Bytes got;
  ASSERT_TRUE(right.receive(message, got, seconds(30)).ok());
  EXPECT_EQ(message.staged().version(), 1u);
  EXPECT_EQ(got, payload);
  ASSERT_TRUE(right.receive(message, got, seconds(30)).ok());
  EXPECT_EQ(message.staged().version(), 2u);
  EXPECT_TRUE(got.empty());
  sender.join();
}

TEST(PublishClient, AnErrorOfTheOtherSideIsTheAnswer) {
  Pair pair;
  PublishClient left = pair.left();
  {
    PublishClient right = pair.right();
    ASSERT_TRUE(right.send(error("busy", "another seed holds the lock")).ok());
  }
  wire::PublishMessage message;
  Bytes payload;
  Error got = left.receive(message, payload, seconds(30)).error();
  EXPECT_EQ(got.code, ErrorCode::busy);
  EXPECT_EQ(got.message, "another seed holds the lock");
  EXPECT_EQ(left.receive(message, payload, seconds(30)).error().code, ErrorCode::unreachable);
}

TEST(PublishClient, AnErrorIsSeenWhileSending) {
  Pair pair;
  PublishClient left = pair.left();
  std::thread daemon([&] {
    PublishClient right = pair.right();
    EXPECT_TRUE(right.send(staged(3)).ok());
    EXPECT_TRUE(right.send(error("no_space", "the disk is full")).ok());
  });
  daemon.join();
  EXPECT_EQ(left.send(staged(1), Bytes(8'000'000)).error().code, ErrorCode::no_space);
}

TEST(PublishClient, WhatArrivedWhileSendingIsNotLost) {
  Pair pair;
  PublishClient left = pair.left(), right = pair.right();
  ASSERT_TRUE(right.send(staged(3)).ok());
  ASSERT_TRUE(left.send(staged(1)).ok());
  wire::PublishMessage message;
  Bytes payload;
  ASSERT_TRUE(left.receive(message, payload, seconds(30)).ok());
  EXPECT_EQ(message.staged().version(), 3u);
}

TEST(PublishClient, HugeAndBrokenMessagesAreRefused) {
  for (std::string prefix : {std::string("\xff\xff\xff\xff\0\0\0\0", 8), std::string("\0\0\0\0\xff\xff\xff\x7f", 8),
                             std::string("\x04\0\0\0\0\0\0\0\xff\xff\xff\xff", 12)}) {
    Pair pair;
    PublishClient left = pair.left();
    ASSERT_EQ(::write(pair.ends[1], prefix.data(), prefix.size()), static_cast<ssize_t>(prefix.size()));
    wire::PublishMessage message;
    Bytes payload;
    Error got = left.receive(message, payload, seconds(30)).error();
    EXPECT_TRUE(got.code == ErrorCode::limit || got.code == ErrorCode::malformed) << got.message;
    ::close(pair.ends[1]);
  }
}

TEST(PublishClient, CancelEndsTheWait) {
  Pair pair;
  std::atomic<bool> cancelled = false;
  PublishClient left = pair.left([&] { return cancelled.exchange(true); });
  wire::PublishMessage message;
  Bytes payload;
  EXPECT_EQ(left.receive(message, payload, seconds(30)).error().code, ErrorCode::interrupted);
  left.stop_asking();
  EXPECT_TRUE(left.send(staged(9)).ok()) << "a last word is still possible";
  ::close(pair.ends[1]);
}

TEST(PublishClient, AfterHalfAMessageNothingIsSent) {
  Pair pair;
  PublishClient left = pair.left([] { return true; });
  EXPECT_EQ(left.send(staged(1), Bytes(64'000'000)).error().code, ErrorCode::interrupted);  // nobody reads
  EXPECT_EQ(left.send(staged(2)).error().code, ErrorCode::unreachable);
  ::close(pair.ends[1]);
}

TEST(PublishClient, NobodyListens) {
  testing::TempDir dir;
  auto client = PublishClient::connect(dir / "publish.sock");
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.error().code, ErrorCode::unreachable);
  EXPECT_NE(client.error().message.find("publish.sock"), std::string::npos);
  EXPECT_EQ(PublishClient::connect(std::string(200, 'x')).error().code, ErrorCode::unreachable);
}

}  // namespace
}  // namespace p2pw
