#include "daemon/core/publish_server.h"

#include <gtest/gtest.h>

#include "daemon/client/publish_client.h"
#include "protocol/publish.pb.h"
#include "tests/support/temp_dir.h"

namespace p2pw {
namespace {

using namespace std::chrono_literals;

class PublishServerTest : public ::testing::Test, public PublishHost {
 protected:
  PublishServerTest() {
    auto started = PublishServer::start(io, dir / "publish.sock", *this);
    server = std::move(*started);
  }
  void publish_message(const PublishSessionPtr& from, const wire::PublishMessage& message, Bytes) override {
    session = from;
    taken.push_back(message.open().channel());
    if (pauses) session->pause();
  }
  void publish_closed(const PublishSessionPtr&) override { ++closed; }

  Status say(PublishClient& client, const std::string& what) {
    wire::PublishMessage message;
    message.mutable_open()->set_channel(what);
    return client.send(message);
  }
  void until(const std::function<bool()>& condition) {
    for (const auto end = std::chrono::steady_clock::now() + 30s; !condition() && std::chrono::steady_clock::now() < end;) {
      io.run_one_for(1s);
    }
    ASSERT_TRUE(condition());
  }

  testing::TempDir dir;
  boost::asio::io_context io;
  std::unique_ptr<PublishServer> server;
  PublishSessionPtr session;
  std::vector<std::string> taken;
  bool pauses = false;
  int closed = 0;
};

TEST_F(PublishServerTest, WhoIsPausedIsReadFromAgainOnceItMayGoOn) {
  auto client = PublishClient::connect(dir / "publish.sock");
  ASSERT_TRUE(client.ok()) << client.error().message;
  pauses = true;
  ASSERT_TRUE(say(*client, "one"));
  ASSERT_TRUE(say(*client, "two"));
  until([&] { return taken.size() == 1; });
  io.poll();  // all that there is to do
  EXPECT_EQ(taken.size(), 1u);
  pauses = false;
  session->resume();
  until([&] { return taken.size() == 2; });
  EXPECT_EQ(taken, (std::vector<std::string>{"one", "two"}));
  session->resume();  // once too often: reads nothing twice
  ASSERT_TRUE(say(*client, "three"));
  until([&] { return taken.size() == 3; });
}

TEST_F(PublishServerTest, WhoHangsUpWhileItIsPausedIsNoticed) {
  {
    auto client = PublishClient::connect(dir / "publish.sock");
    ASSERT_TRUE(client.ok()) << client.error().message;
    pauses = true;
    ASSERT_TRUE(say(*client, "one"));
    until([&] { return taken.size() == 1; });
  }
  session->resume();
  until([&] { return closed == 1; });
}

}  // namespace
}  // namespace p2pw
