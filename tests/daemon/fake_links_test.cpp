#include "tests/support/fake_links.h"

#include <gtest/gtest.h>

namespace p2pw::testing {
namespace {

using namespace std::chrono_literals;

struct Recorder : LinkHandler {
  void link_up(const NodeKey&, const wire::Hello& hello) override {
    ++ups;
    region = hello.region();
  }
  void link_down(const NodeKey&, const Error& reason) override {
    ++downs;
    last = reason;
  }
  void link_message(const NodeKey&, const wire::LinkMessage& message, Bytes payload) override {
    messages.push_back(message);
    bytes += payload.size();
  }
  Result<wire::EnrolReply> link_enrol(const Bytes&, const NodeKey&) override {
    return fail(ErrorCode::untrusted, "no");
  }
  int ups = 0, downs = 0;
  std::string region;
  Error last;
  std::vector<wire::LinkMessage> messages;
  std::uint64_t bytes = 0;
};

class FakeLinksTest : public ::testing::Test {
 protected:
  static NodeKey key(std::uint8_t n) {
    NodeKey made;
    made.data.fill(n);
    return made;
  }
  static wire::Hello in(const std::string& region) {
    wire::Hello hello;
    hello.set_region(region);
    return hello;
  }
  void join() {
    a_.dial(net_.endpoint_of(key(2)), key(2));
    ASSERT_TRUE(net_.run_until([&] { return a_.linked(key(2)) && b_.linked(key(1)); }, 10s));
  }
  static wire::Chunk chunk(std::uint32_t index) {
    wire::Chunk made;
    made.set_bundle(std::string(32, 'x'));
    made.set_index(index);
    return made;
  }

  FakeLinks net_;
  Recorder at_a_, at_b_;
  LoopbackHub& a_ = net_.add(key(1), in("eu"), at_a_);
  LoopbackHub& b_ = net_.add(key(2), in("us"), at_b_);
};

TEST_F(FakeLinksTest, DelaysMessagesByThePath) {
  net_.set_path(key(1), key(2), {.delay = 40ms});
  join();
  EXPECT_EQ(at_a_.region, "us");
  EXPECT_EQ(at_b_.region, "eu");
  wire::LinkMessage message;
  message.mutable_goodbye();
  const auto sent = net_.now();
  a_.send(key(2), message);
  ASSERT_TRUE(net_.run_until([&] { return !at_b_.messages.empty(); }, 1s));
  EXPECT_EQ(net_.now() - sent, 40ms);
  EXPECT_EQ(a_.stats(key(2))->round_trip, 80ms);
}

TEST_F(FakeLinksTest, ChunksTakeTheirTimeAndCanBeCut) {
  net_.set_path(key(1), key(2), {.delay = 10ms, .rate_bits = 8'000'000});  // 1 MB/s
  join();
  const auto payload = std::make_shared<Bytes>(100'000);
  for (std::uint32_t i = 0; i < 10; ++i) EXPECT_TRUE(a_.send_chunk(key(2), chunk(i), payload));
  net_.run_for(350ms);
  EXPECT_EQ(at_b_.messages.size(), 3u);
  EXPECT_EQ(net_.payload_between(key(1), key(2)), 300'000u);
  BundleId bundle;
  bundle.data.fill('x');
  a_.cut_queue(key(2), bundle);
  net_.run_for(2s);
  EXPECT_EQ(at_b_.messages.size(), 4u);  // the one that had begun
  EXPECT_EQ(a_.stats(key(2))->stripe_queue, 0u);
}

TEST_F(FakeLinksTest, ShortCutsDelayLongOnesEndTheLink) {
  join();
  net_.cut(key(1), key(2));
  wire::LinkMessage message;
  message.mutable_goodbye();
  a_.send(key(2), message);
  net_.run_for(2s);
  EXPECT_TRUE(at_b_.messages.empty());
  net_.heal(key(1), key(2));
  net_.run_for(1ms);
  EXPECT_EQ(at_b_.messages.size(), 1u);
  net_.run_for(10s);
  EXPECT_EQ(at_a_.downs, 0);
  net_.cut(key(1), key(2));
  net_.run_for(6s);
  EXPECT_EQ(at_a_.downs, 1);
  EXPECT_EQ(at_b_.downs, 1);
  EXPECT_EQ(at_a_.last.code, ErrorCode::timed_out);
  net_.heal(key(1), key(2));
  net_.run_for(1s);
  EXPECT_TRUE(a_.linked(key(2)));
}

TEST_F(FakeLinksTest, KillIsNoticedAtOnceAndWhatWasSentStillArrives) {
  net_.set_path(key(1), key(2), {.delay = 20ms});
  join();
  wire::LinkMessage message;
  message.mutable_goodbye();
  b_.send(key(1), message);
  net_.kill(key(2));
  net_.run_for(21ms);
  EXPECT_EQ(at_a_.messages.size(), 1u);
  EXPECT_EQ(at_a_.downs, 1);
  net_.revive(key(2));
  net_.run_for(1s);
  EXPECT_TRUE(a_.linked(key(2)));
  EXPECT_EQ(at_b_.ups, 2);
}

TEST_F(FakeLinksTest, HungNodesHandleNothingUntilTheyResume) {
  join();
  net_.hang(key(2));
  wire::LinkMessage message;
  message.mutable_goodbye();
  a_.send(key(2), message);
  net_.run_for(6s);
  EXPECT_EQ(at_a_.downs, 1);
  EXPECT_EQ(at_b_.downs, 0);
  EXPECT_TRUE(at_b_.messages.empty());
  net_.resume(key(2));
  EXPECT_EQ(at_b_.downs, 1);
  net_.run_for(1s);
  EXPECT_TRUE(a_.linked(key(2)));
}

TEST_F(FakeLinksTest, BannedAndUnexpectedKeysDoNotLink) {
  b_.ban(key(1), "test");
  a_.dial(net_.endpoint_of(key(2)), std::nullopt);
  net_.run_for(5s);
  EXPECT_FALSE(a_.linked(key(2)));
  Recorder at_c;
  LoopbackHub& c = net_.add(key(3), in("eu"), at_c);
  c.dial(net_.endpoint_of(key(2)), key(1));
  net_.run_for(5s);
  EXPECT_EQ(at_c.ups, 0);
  c.undial(net_.endpoint_of(key(2)));
  c.dial(net_.endpoint_of(key(2)), key(2));
  net_.run_for(5s);
  EXPECT_EQ(at_c.ups, 1);
  c.drop(key(2), fail(ErrorCode::failed, "test"));
  EXPECT_EQ(at_c.downs, 0) << "link_down from inside drop()";
  net_.run_for(1s);
  EXPECT_EQ(at_c.downs, 1);
  EXPECT_EQ(at_c.ups, 2);
}

}  // namespace
}  // namespace p2pw::testing
