#include "tests/daemon/link_world.h"

namespace p2pw::testing {
namespace {

class LinkHubTest : public LinkWorld {};

wire::LinkMessage records_wanted(const std::string& channel) {
  wire::LinkMessage message;
  message.mutable_records_wanted()->set_channel(channel);
  return message;
}

TEST_F(LinkHubTest, ComesUpOnBothSidesAndCarriesMessages) {
  TestNode a, b;
  start(a, "eu");
  start(b, "us");
  link(a, b);
  EXPECT_EQ(b.handler.hellos[a.key()].region(), "eu");
  EXPECT_EQ(a.handler.hellos[b.key()].region(), "us");
  a.hub->send(b.key(), records_wanted("from-a"));
  b.hub->send(a.key(), records_wanted("from-b"));
  ASSERT_TRUE(until([&] { return !a.handler.messages.empty() && !b.handler.messages.empty(); }));
  EXPECT_EQ(b.handler.messages[0].message.records_wanted().channel(), "from-a");
  EXPECT_EQ(a.handler.messages[0].message.records_wanted().channel(), "from-b");
  EXPECT_EQ(b.handler.messages[0].peer, a.key());
}

TEST_F(LinkHubTest, ChunksArriveIntactOverSeveralStripes) {
  TestNode a, b;
  start(a, "eu");
  start(b, "us");
  link(a, b);
  constexpr std::uint32_t kChunks = 64;
  std::map<std::uint32_t, SharedBytes> sent;
  for (std::uint32_t i = 0; i < kChunks; ++i) {
    auto payload = std::make_shared<Bytes>(1'000'003 + i);
    for (std::size_t k = 0; k < payload->size(); ++k) (*payload)[k] = static_cast<std::byte>((k * 31 + i) >> 3);
    sent[i] = payload;
    wire::Chunk chunk;
    chunk.set_bundle(std::string(32, 'b'));
    chunk.set_index(i);
    EXPECT_TRUE(a.hub->send_chunk(b.key(), chunk, payload));
  }
  ASSERT_TRUE(until([&] { return b.handler.messages.size() == kChunks; }));
  std::uint64_t total = 0;
  for (auto& message : b.handler.messages) {
    ASSERT_TRUE(message.message.has_chunk());
    EXPECT_EQ(message.payload, *sent[message.message.chunk().index()]);
    total += message.payload.size();
  }
  ASSERT_TRUE(until([&] { return a.hub->stats(b.key())->stripe_queue == 0; }));
  EXPECT_EQ(a.hub->stats(b.key())->payload_sent, total);
  EXPECT_EQ(b.hub->stats(a.key())->payload_received, total);
  ASSERT_TRUE(until([&] { return a.hub->stats(b.key())->stripes == 4 && b.hub->stats(a.key())->stripes == 4; }));
}

TEST_F(LinkHubTest, BothDiallingAtOnceEndsWithOneLink) {
  for (int round = 0; round < 20; ++round) {
    TestNode a, b;
    start(a);
    start(b);
    a.hub->dial(b.endpoint(), b.key());
    b.hub->dial(a.endpoint(), a.key());
    ASSERT_TRUE(until([&] { return linked(a, b); }));
    a.hub->send(b.key(), records_wanted("x"));
    b.hub->send(a.key(), records_wanted("y"));
    ASSERT_TRUE(until([&] { return a.handler.messages.size() == 1 && b.handler.messages.size() == 1; }));
    EXPECT_EQ(a.handler.ups, 1);
    EXPECT_EQ(b.handler.ups, 1);
    EXPECT_EQ(a.handler.downs + b.handler.downs, 0);
  }
}

TEST_F(LinkHubTest, ComesBackAfterTheOtherSideRestarts) {
  TestNode a, b;
  start(a);
  start(b);
  link(a, b);
  const LinkEndpoint place = b.endpoint();
  b.hub.reset();
  ASSERT_TRUE(until([&] { return a.handler.downs == 1; }));
  b.handler.up.clear();
  auto again = options(b);
  again.listen = {place};
  start(b, std::move(again));
  ASSERT_TRUE(until([&] { return linked(a, b); }));
  EXPECT_EQ(a.handler.ups, 2);
}

TEST_F(LinkHubTest, RefusesAnotherKeyThanExpected) {
  TestNode a, b, other;
  start(a);
  start(b);
  a.hub->dial(b.endpoint(), other.key());
  ASSERT_TRUE(until([&] { return a.hub->counters().dials_failed >= 2; }));
  EXPECT_EQ(a.handler.ups + b.handler.ups, 0);
}

TEST_F(LinkHubTest, RefusesAnotherFleetSecret) {
  TestNode a, b;
  start(a);
  auto stranger = options(b);
  stranger.fleet_secrets.clear();
  stranger.fleet_secrets.push_back(FleetSecret::generate());
  start(b, std::move(stranger));
  b.hub->dial(a.endpoint(), a.key());
  ASSERT_TRUE(until([&] { return a.hub->counters().refused >= 1 && b.hub->counters().dials_failed >= 1; }));
  EXPECT_EQ(a.hub->counters().refused_by_code["untrusted"], a.hub->counters().refused);
  EXPECT_EQ(a.handler.ups + b.handler.ups, 0);
}

}  // namespace
}  // namespace p2pw::testing
