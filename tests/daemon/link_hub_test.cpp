// Two and more hubs over real loopback sockets.
#include <boost/asio/ip/tcp.hpp>

#include "daemon/link/enrol_client.h"
#include "daemon/link/warm_up.h"
#include "tests/daemon/link_hostile.h"

namespace p2pw::testing {
namespace {

using namespace std::chrono_literals;

class LinkHubTest : public LinkWorld {
 protected:
  static wire::LinkMessage note(const std::string& text) {
    wire::LinkMessage message;
    message.mutable_records_wanted()->set_channel(text);
    return message;
  }
  static BundleId bundle(char name) { return BundleId::from(std::string(32, name)).value(); }
  static wire::Chunk chunk(char name, std::uint32_t index) {
    wire::Chunk made;
    made.set_bundle(std::string(32, name));
    made.set_index(index);
    return made;
  }
  static std::vector<FleetSecret> list(std::initializer_list<const FleetSecret*> secrets) {
    std::vector<FleetSecret> made;
    for (const auto* secret : secrets) made.push_back(secret->clone());
    return made;
  }
  // Bits a second so low that chunks stay queued for the length of a test.
  LinkHubOptions slow(const TestNode& node) {
    LinkHubOptions made = options(node, "eu");
    made.wan_rate_bits = 1'000'000;
    return made;
  }
};

TEST_F(LinkHubTest, ComesUpOnBothSidesAndCarriesMessages) {
  TestNode a, b;
  start(a, "eu");
  start(b, "us");
  link(a, b);
  EXPECT_EQ(b.handler.hellos[a.key()].region(), "eu");
  EXPECT_EQ(a.handler.hellos[b.key()].region(), "us");
  a.hub->send(b.key(), note("from-a"));
  b.hub->send(a.key(), note("from-b"));
  ASSERT_TRUE(until([&] { return !a.handler.messages.empty() && !b.handler.messages.empty(); }));
  EXPECT_EQ(b.handler.messages[0].message.records_wanted().channel(), "from-a");
  EXPECT_EQ(a.handler.messages[0].message.records_wanted().channel(), "from-b");
  EXPECT_EQ(b.handler.messages[0].peer, a.key());
  EXPECT_TRUE(a.hub->last_heard(b.key()).has_value());
  EXPECT_EQ(a.hub->links(), std::vector{b.key()});
}

// It may arrive in the same read as the answer that proves the peer.
TEST_F(LinkHubTest, MuchThatComesRightBehindTheProofIsNotTooMuch) {
  constexpr int kMessages = 16;
  TestNode a, b;
  start(a);
  start(b);
  b.handler.on_up = [&](const NodeKey& key) {
    for (int i = 0; i < kMessages; ++i) b.hub->send(key, note(std::string(8000, 'x')));
  };
  link(a, b);
  ASSERT_TRUE(until([&] { return a.handler.messages.size() == kMessages; }));
  EXPECT_EQ(a.handler.downs, 0);
}

TEST_F(LinkHubTest, StripesToAnotherRegionAreWarmedAndOthersAreNot) {
  TestNode far, near, trainer;
  start(far, "eu");
  start(near, "eu");
  LinkHubOptions home = options(trainer, "us");
  home.hello.set_trainer(true);
  start(trainer, std::move(home));
  link(far, trainer);
  link(far, near);
  constexpr std::uint64_t all = kDefaultStripes * WarmUp::kBytes;
  ASSERT_TRUE(until([&] { return far.hub->stats(trainer.key())->control_received > all; }));
  // Chunks still pass, and padding reaches nobody.
  const auto some = std::make_shared<const Bytes>(1000);
  ASSERT_TRUE(until([&] { return far.hub->send_chunk(near.key(), chunk('x', 0), some); }));
  ASSERT_TRUE(until([&] { return !near.handler.messages.empty(); }));
  EXPECT_TRUE(far.handler.messages.empty());
  EXPECT_LT(near.hub->stats(far.key())->control_received, WarmUp::kBytes);
  EXPECT_LT(trainer.hub->stats(far.key())->control_received, WarmUp::kBytes) << "a trainer takes no chunks";
}

TEST_F(LinkHubTest, MeasuresRoundTripAndClock) {
  TestNode a, b;
  start(a);
  start(b);
  link(a, b);
  ASSERT_TRUE(until(
      [&] { return a.hub->stats(b.key())->round_trip > 0us && b.hub->stats(a.key())->round_trip > 0us; }));
  EXPECT_LT(std::chrono::abs(a.hub->stats(b.key())->clock_offset), 10s);
}

TEST_F(LinkHubTest, ControlMessagesWithPayloadKeepTheirOrder) {
  TestNode a, b;
  start(a);
  start(b);
  link(a, b);
  for (int i = 0; i < 20; ++i) {
    wire::LinkMessage meta;
    meta.mutable_meta()->set_bundle(std::to_string(i));
    a.hub->send(b.key(), meta, std::make_shared<Bytes>(300'000, static_cast<std::byte>(i)));
    a.hub->send(b.key(), note(std::to_string(i)));
  }
  ASSERT_TRUE(until([&] { return b.handler.messages.size() == 40; }));
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(b.handler.messages[2 * i].message.meta().bundle(), std::to_string(i));
    EXPECT_EQ(b.handler.messages[2 * i].payload, Bytes(300'000, static_cast<std::byte>(i)));
    EXPECT_EQ(b.handler.messages[2 * i + 1].message.records_wanted().channel(), std::to_string(i));
  }
}

TEST_F(LinkHubTest, ChunksArriveIntactOverSeveralStripes) {
  TestNode a, b;
  start(a, "eu");
  start(b, "us");
  link(a, b);
  ASSERT_TRUE(
      until([&] { return a.hub->stats(b.key())->stripes == kDefaultStripes &&
                           b.hub->stats(a.key())->stripes == kDefaultStripes; }));
  constexpr std::uint32_t kChunks = 64;
  std::vector<SharedBytes> sent;
  std::uint64_t total = 0;
  for (std::uint32_t i = 0; i < kChunks; ++i) {
    auto payload = std::make_shared<Bytes>(1'000'003 + i);
    for (std::size_t k = 0; k < payload->size(); ++k)
      (*payload)[k] = static_cast<std::byte>((k * 31 + i) >> 3);
    total += payload->size();
    sent.push_back(payload);
    EXPECT_TRUE(a.hub->send_chunk(b.key(), chunk('b', i), payload));
  }
  ASSERT_TRUE(until([&] { return b.handler.messages.size() == kChunks; }));
  std::set<std::uint32_t> seen;
  for (auto& message : b.handler.messages) {
    ASSERT_TRUE(message.message.has_chunk());
    const auto index = message.message.chunk().index();
    EXPECT_TRUE(seen.insert(index).second);
    EXPECT_EQ(message.payload, *sent[index]);
  }
  ASSERT_TRUE(until([&] { return a.hub->stats(b.key())->stripe_queue == 0; }));
  EXPECT_EQ(a.hub->stats(b.key())->payload_sent, total);
  EXPECT_EQ(b.hub->stats(a.key())->payload_received, total);
  EXPECT_EQ(b.hub->stats(a.key())->payload_sent, 0u);
}

TEST_F(LinkHubTest, OtherBulkIsCountedApart) {
  TestNode a, b;
  start(a);
  start(b);
  link(a, b);
  wire::LinkMessage slab;
  slab.mutable_slab()->set_slab(7);
  EXPECT_TRUE(a.hub->send_bulk(b.key(), slab, std::make_shared<Bytes>(5'000'000)));
  ASSERT_TRUE(until([&] { return b.handler.messages.size() == 1 && a.hub->stats(b.key())->bulk_sent > 0; }));
  EXPECT_EQ(a.hub->stats(b.key())->bulk_sent, 5'000'000u);
  EXPECT_EQ(b.hub->stats(a.key())->bulk_received, 5'000'000u);
  EXPECT_EQ(a.hub->stats(b.key())->payload_sent, 0u);
}

TEST_F(LinkHubTest, ControlMessagesDoNotWaitBehindChunks) {
  TestNode a, b;
  start(a, slow(a));
  start(b, "us");
  link(a, b);
  const auto payload = std::make_shared<Bytes>(1'000'000);
  for (std::uint32_t i = 0; i < 40; ++i) a.hub->send_chunk(b.key(), chunk('b', i), payload);
  a.hub->send(b.key(), note("now"));
  ASSERT_TRUE(until([&] { return !b.handler.messages.empty(); }));
  EXPECT_TRUE(b.handler.messages[0].message.has_records_wanted());
  EXPECT_GT(a.hub->stats(b.key())->stripe_queue, 30'000'000u);
}

TEST_F(LinkHubTest, CutForgetsWhatHasNotBegun) {
  TestNode a, b;
  start(a, slow(a));
  start(b, "us");
  link(a, b);
  const auto payload = std::make_shared<Bytes>(100'000);
  for (std::uint32_t i = 0; i < 100; ++i) a.hub->send_chunk(b.key(), chunk('x', i), payload);
  a.hub->send_chunk(b.key(), chunk('y', 0), payload);
  a.hub->cut_queue(b.key(), bundle('x'));
  ASSERT_TRUE(until([&] {
    return !b.handler.messages.empty() && b.handler.messages.back().message.chunk().bundle()[0] == 'y';
  }));
  EXPECT_LT(b.handler.messages.size(), 10u);
  ASSERT_TRUE(until([&] { return a.hub->stats(b.key())->stripe_queue == 0; }));
  EXPECT_EQ(a.hub->stats(b.key())->payload_sent, b.handler.messages.size() * 100'000);
}

TEST_F(LinkHubTest, BothDiallingAtOnceEndsWithOneLink) {
  for (int round = 0; round < 20; ++round) {
    TestNode a, b;
    start(a);
    start(b);
    const bool known = round % 2 == 0;
    a.hub->dial(b.endpoint(), known ? std::optional(b.key()) : std::nullopt);
    b.hub->dial(a.endpoint(), known ? std::optional(a.key()) : std::nullopt);
    ASSERT_TRUE(until([&] { return linked(a, b); }));
    a.hub->send(b.key(), note("x"));
    b.hub->send(a.key(), note("y"));
    ASSERT_TRUE(until([&] { return a.handler.messages.size() == 1 && b.handler.messages.size() == 1; }));
    EXPECT_EQ(a.handler.ups, 1);
    EXPECT_EQ(b.handler.ups, 1);
    EXPECT_EQ(a.handler.downs + b.handler.downs, 0);
  }
}

TEST_F(LinkHubTest, ManyNodesDiallingEachOtherEndWithOneLinkAPair) {
  constexpr int kNodes = 6;
  std::vector<std::unique_ptr<TestNode>> nodes;
  for (int i = 0; i < kNodes; ++i) {
    nodes.push_back(std::make_unique<TestNode>());
    start(*nodes.back());
  }
  for (auto& from : nodes) {
    for (auto& to : nodes) {
      if (from != to) from->hub->dial(to->endpoint(), to->key());
    }
  }
  ASSERT_TRUE(until([&] {
    return std::all_of(nodes.begin(), nodes.end(),
                       [](auto& n) { return n->hub->links().size() == kNodes - 1; });
  }));
  for (auto& node : nodes) {
    EXPECT_EQ(node->handler.ups, kNodes - 1);
    EXPECT_EQ(node->handler.downs, 0);
  }
}

TEST_F(LinkHubTest, DiallingALinkedPeerDoesNothing) {
  TestNode a, b;
  start(a);
  start(b);
  link(a, b);
  b.hub->dial(a.endpoint(), a.key());
  a.hub->dial({"localhost", b.endpoint().port}, std::nullopt);
  a.hub->send(b.key(), note("x"));
  ASSERT_TRUE(until([&] { return b.hub->counters().accepted >= 3 && !b.handler.messages.empty(); }));
  EXPECT_EQ(a.handler.ups + b.handler.ups, 2);
  EXPECT_EQ(a.handler.downs + b.handler.downs, 0);
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

TEST_F(LinkHubTest, CountersGoOnOverLinks) {
  TestNode a, b;
  start(a);
  start(b);
  link(a, b);
  const auto payload = std::make_shared<Bytes>(100'000);
  a.hub->send_chunk(b.key(), chunk('x', 0), payload);
  ASSERT_TRUE(until([&] { return b.handler.messages.size() == 1; }));
  b.hub->drop(a.key(), fail(ErrorCode::failed, "a test"));
  ASSERT_TRUE(until([&] { return a.handler.downs == 1; }));
  EXPECT_NE(a.handler.last_reason.message.find("a test"), std::string::npos);
  EXPECT_EQ(a.hub->stats(b.key())->payload_sent, 100'000u);
  ASSERT_TRUE(until([&] { return linked(a, b); }));  // dialled again
  a.hub->send_chunk(b.key(), chunk('x', 0), payload);
  ASSERT_TRUE(
      until([&] { return b.handler.messages.size() == 2 && a.hub->stats(b.key())->stripe_queue == 0; }));
  EXPECT_EQ(a.hub->stats(b.key())->payload_sent, 200'000u);
}

TEST_F(LinkHubTest, TheHandlerMayDropALinkFromWithin) {
  TestNode a, b;
  start(a);
  start(b);
  b.handler.on_message = [&](const RecordingHandler::Message& message) {
    const int downs = b.handler.downs;
    b.hub->drop(message.peer, fail(ErrorCode::failed, "from within"));
    EXPECT_EQ(b.handler.downs, downs) << "link_down from inside drop()";
    EXPECT_FALSE(b.hub->linked(message.peer));
  };
  link(a, b);
  for (int i = 0; i < 10; ++i) a.hub->send(b.key(), note("x"));
  ASSERT_TRUE(until([&] { return b.handler.downs == 1; }));
  EXPECT_EQ(b.handler.messages.size(), 1u);
  b.handler.on_message = nullptr;
  b.handler.on_up = [&](const NodeKey& peer) { b.hub->send(peer, note("welcome back")); };
  ASSERT_TRUE(until([&] { return !a.handler.messages.empty(); }));
}

TEST_F(LinkHubTest, UndialEndsTheLinkForGood) {
  TestNode a, b;
  start(a);
  start(b);
  link(a, b);
  a.hub->undial(b.key());
  ASSERT_TRUE(until([&] { return a.handler.downs == 1 && b.handler.downs == 1; }));
  EXPECT_FALSE(a.hub->linked(b.key()));
  b.hub->dial(a.endpoint(), a.key());
  ASSERT_TRUE(until([&] { return linked(a, b); }));
  a.hub->undial(b.key());  // the other side wants it
  a.hub->send(b.key(), note("still here"));
  ASSERT_TRUE(until([&] { return !b.handler.messages.empty(); }));
}

TEST_F(LinkHubTest, ABannedNodeStaysOut) {
  TestNode a, b;
  start(a);
  start(b);
  link(b, a);
  a.hub->ban(b.key(), "a wrong chunk");
  ASSERT_TRUE(until([&] { return b.handler.downs == 1 && a.hub->counters().refused >= 1; }));
  EXPECT_FALSE(a.hub->linked(b.key()));
  EXPECT_EQ(b.handler.ups, 1);
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
  const FleetSecret wrong = FleetSecret::generate();
  stranger.fleet_secrets = list({&wrong});
  start(b, std::move(stranger));
  b.hub->dial(a.endpoint(), a.key());
  ASSERT_TRUE(until([&] { return a.hub->counters().refused >= 1 && b.hub->counters().dials_failed >= 1; }));
  EXPECT_EQ(a.hub->counters().refused_by_code["untrusted"], a.hub->counters().refused);
  EXPECT_EQ(a.handler.ups + b.handler.ups, 0);
}

TEST_F(LinkHubTest, TheFleetSecretIsRotatedWithoutStopping) {
  TestNode a, b;
  start(a);
  start(b);
  link(a, b);
  const FleetSecret fresh = FleetSecret::generate();
  a.hub->set_fleet_secrets(list({&fresh, &secret_}));
  b.hub->set_fleet_secrets(list({&fresh, &secret_}));
  a.hub->send(b.key(), note("x"));
  ASSERT_TRUE(until([&] { return b.handler.messages.size() == 1; }));
  EXPECT_EQ(a.handler.downs + b.handler.downs, 0);
  a.hub->set_fleet_secrets(list({&fresh}));  // the link rests on the older one: proven again
  ASSERT_TRUE(until([&] { return a.handler.ups == 2 && linked(a, b); }));
  b.hub->set_fleet_secrets(list({&fresh}));
  a.hub->send(b.key(), note("y"));
  ASSERT_TRUE(until([&] { return b.handler.messages.size() == 2; }));
  EXPECT_EQ(a.handler.downs, 1);
}

TEST_F(LinkHubTest, AnOlderSecretIsTriedWhereTheNewerIsNotKnownYet) {
  TestNode a, b;
  const FleetSecret fresh = FleetSecret::generate();
  auto with = options(a);
  with.fleet_secrets = list({&fresh, &secret_});
  start(a, std::move(with));
  start(b);
  link(a, b);
  EXPECT_EQ(a.handler.ups, 1);
}

TEST_F(LinkHubTest, TheAllowListCanBeReplaced) {
  TestNode a, b;
  start(a);
  start(b, "us");
  link(b, a);
  a.hub->set_allow_list(AllowList{{b.key(), {.region = Region::parse("asia").value()}}});
  ASSERT_TRUE(until([&] { return a.handler.ups == 2; }));  // another region: introduced again
  EXPECT_EQ(a.handler.hellos[b.key()].region(), "asia");
  a.hub->set_allow_list(AllowList{});
  ASSERT_TRUE(until([&] { return a.handler.downs == 2 && a.hub->counters().refused >= 1; }));
  EXPECT_FALSE(a.hub->linked(b.key()));
}

TEST_F(LinkHubTest, OutgoingConnectionsComeFromTheConfiguredAddress) {
  TestNode a;
  auto with = options(a);
  with.bind_address = "127.0.0.9";
  start(a, std::move(with));
  HostilePeer peer(io_);
  a.hub->dial(peer.accept(nullptr), std::nullopt);
  ASSERT_TRUE(until([&] { return peer.connection != nullptr; }));
  EXPECT_EQ(peer.connection->remote_address(), "127.0.0.9");
}

TEST_F(LinkHubTest, APeerThatTakesNoControlMessagesIsDropped) {
  boost::asio::io_context elsewhere;
  TestNode a, b;
  auto with = options(a);
  with.max_control_queue = 1u << 20;
  start(a, std::move(with));
  b.hub = TlsLinkHub::start(elsewhere, options(b), b.handler).value();
  a.hub->dial(b.endpoint(), b.key());
  ASSERT_TRUE(run_until(io_, [&] {
    elsewhere.poll();
    elsewhere.restart();
    return linked(a, b);
  }));
  // From here on b does nothing any more.
  wire::LinkMessage meta;
  meta.mutable_meta();
  const auto payload = std::make_shared<Bytes>(500'000);
  ASSERT_TRUE(until([&] {
    a.hub->send(b.key(), meta, payload);
    return a.handler.downs == 1;
  }));
  EXPECT_EQ(a.handler.last_reason.code, ErrorCode::limit);
}

TEST_F(LinkHubTest, ChunksBeyondTheQueueAreNotTaken) {
  TestNode a, b;
  auto with = slow(a);
  with.max_stripe_queue = 1'000'000;
  start(a, std::move(with));
  start(b, "us");
  link(a, b);
  const auto payload = std::make_shared<Bytes>(400'000);
  EXPECT_TRUE(a.hub->send_chunk(b.key(), chunk('x', 0), payload));
  EXPECT_TRUE(a.hub->send_chunk(b.key(), chunk('x', 1), payload));
  EXPECT_FALSE(a.hub->send_chunk(b.key(), chunk('x', 2), payload));
  EXPECT_FALSE(a.hub->send_chunk(a.key(), chunk('x', 2), payload));
  EXPECT_TRUE(a.hub->linked(b.key()));
}

TEST_F(LinkHubTest, ShutdownSaysWhy) {
  TestNode a, b;
  start(a);
  start(b);
  link(a, b);
  b.hub->shutdown("an update");
  ASSERT_TRUE(until([&] { return a.handler.downs == 1 && b.handler.downs == 1; }));
  EXPECT_NE(a.handler.last_reason.message.find("an update"), std::string::npos);
  EXPECT_TRUE(b.hub->links().empty());
}

TEST_F(LinkHubTest, AnAddressInUseIsAnError) {
  TestNode a, b;
  start(a);
  auto with = options(b);
  with.listen = {a.endpoint()};
  auto taken = TlsLinkHub::start(io_, std::move(with), b.handler);
  ASSERT_FALSE(taken.ok());
  EXPECT_EQ(taken.error().code, ErrorCode::io);
}

// Enrolment.

class EnrolTest : public LinkHubTest {
 protected:
  void SetUp() override {
    id_.data.fill(3);
    token_.data.fill(9);
    auto with = options(node_);
    with.enrolments = [this](const EnrolmentId& id) {
      return id == id_ && open_ ? std::optional(token_) : std::nullopt;
    };
    node_.handler.on_enrol = [this](const Bytes& id, const NodeKey&) -> Result<wire::EnrolReply> {
      EXPECT_EQ(EnrolmentId::from(ByteView(id)), id_);
      if (used_) return fail(ErrorCode::untrusted, "the token is used up");
      used_ = true;
      wire::EnrolReply reply;
      reply.add_secrets(secret_.file());
      reply.set_channel("policy");
      return reply;
    };
    start(node_, std::move(with));
  }
  Result<wire::EnrolReply> ask(const EnrolmentSecret& secret, const NodeKey& expected) {
    std::optional<Result<wire::EnrolReply>> answer;
    auto client = enrol(io_,
                        {.identity = NodeIdentity::make(SigningKey::generate()).value(),
                         .endpoint = node_.endpoint(),
                         .expected = expected,
                         .id = id_,
                         .secret = secret},
                        [&](Result<wire::EnrolReply> result) { answer = std::move(result); });
    EXPECT_TRUE(until([&] { return answer.has_value(); }));
    return answer ? *answer : Result<wire::EnrolReply>(fail(ErrorCode::failed, "no answer"));
  }

  TestNode node_;
  EnrolmentId id_;
  EnrolmentSecret token_;
  bool open_ = true, used_ = false;
};

TEST_F(EnrolTest, ATokenGivesTheSecretsOnce) {
  auto first = ask(token_, node_.key());
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(first->channel(), "policy");
  ASSERT_EQ(first->secrets_size(), 1);
  EXPECT_EQ(FleetSecret::parse(first->secrets(0))->id(), secret_.id());
  EXPECT_EQ(node_.hub->counters().enrolled, 1u);
  auto again = ask(token_, node_.key());
  ASSERT_FALSE(again.ok());
  EXPECT_NE(again.error().message.find("used up"), std::string::npos);
  EXPECT_EQ(node_.handler.ups, 0);
}

TEST_F(EnrolTest, AnExpiredTokenIsRefused) {
  open_ = false;
  auto answer = ask(token_, node_.key());
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, ErrorCode::untrusted);
  EXPECT_EQ(node_.handler.enrolments, 0);
}

TEST_F(EnrolTest, AGuessedSecretIsRefused) {
  EnrolmentSecret guess;
  auto answer = ask(guess, node_.key());
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, ErrorCode::untrusted);
  EXPECT_EQ(node_.handler.enrolments, 0);
}

TEST_F(EnrolTest, AnotherDaemonGetsNoProof) {
  TestNode other;
  auto answer = ask(token_, other.key());
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, ErrorCode::untrusted);
  EXPECT_NE(answer.error().message.find("expected node"), std::string::npos);
  EXPECT_EQ(node_.handler.enrolments, 0);
}

TEST_F(EnrolTest, NobodyThereIsUnreachable) {
  std::optional<Result<wire::EnrolReply>> answer;
  const LinkEndpoint place = node_.endpoint();
  node_.hub.reset();
  auto client = enrol(io_,
                      {.identity = NodeIdentity::make(SigningKey::generate()).value(),
                       .endpoint = place,
                       .expected = node_.key(),
                       .id = id_,
                       .secret = token_},
                      [&](Result<wire::EnrolReply> result) { answer = std::move(result); });
  ASSERT_TRUE(until([&] { return answer.has_value(); }));
  EXPECT_EQ(answer->error().code, ErrorCode::unreachable);
}

}  // namespace
}  // namespace p2pw::testing
