// What strangers and hostile members try on a listening hub, over real sockets.
#include <openssl/ssl.h>

#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include "tests/daemon/link_hostile.h"

namespace p2pw::testing {
namespace {

using boost::asio::ip::tcp;
using namespace std::chrono_literals;

class LinkAttackTest : public LinkWorld {
 protected:
  void SetUp() override { start(node_); }

  tcp::socket knock() {
    tcp::socket socket(io_);
    socket.connect({boost::asio::ip::make_address("127.0.0.1"), node_.endpoint().port});
    return socket;
  }
  // Runs until the hub has closed this socket.
  bool closed_by_hub(tcp::socket& socket) {
    bool closed = false;
    char sink[4096];
    std::function<void()> read = [&] {
      socket.async_read_some(boost::asio::buffer(sink), [&](boost::system::error_code error, std::size_t) {
        error ? void(closed = true) : read();
      });
    };
    read();
    const bool done = until([&] { return closed; });
    return done;
  }
  // A raw OpenSSL client over a real socket, until it is closed by the hub.
  void raw_tls(SSL_CTX* ctx, const std::function<void(SSL*)>& at_end) {
    tcp::socket socket = knock();
    RawTls client(socket, ctx);
    EXPECT_TRUE(until([&] { return client.closed(); }));
    at_end(client.ssl());
  }
  // A member of the fleet that has opened a control connection.
  void join(HostilePeer& peer) {
    peer.connect(node_.endpoint(),
                 [&] { peer.say(peer.offer(secret_, LinkPurpose::control).SerializeAsString()); });
    ASSERT_TRUE(until([&] { return node_.handler.ups == 1 && !peer.frames.empty(); }));
  }
  std::uint64_t refused() const { return node_.hub->counters().refused; }

  TestNode node_;
};

TEST_F(LinkAttackTest, GarbageInsteadOfTls) {
  tcp::socket socket = knock();
  boost::asio::write(socket, boost::asio::buffer(std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n")));
  EXPECT_TRUE(closed_by_hub(socket));
  EXPECT_EQ(refused(), 1u);
}

TEST_F(LinkAttackTest, SilenceIsCutOff) {
  TestNode impatient;
  auto with = options(impatient);
  with.timing.handshake = 50ms;
  start(impatient, std::move(with));
  tcp::socket socket(io_);
  socket.connect({boost::asio::ip::make_address("127.0.0.1"), impatient.endpoint().port});
  EXPECT_TRUE(closed_by_hub(socket));
  EXPECT_EQ(impatient.hub->counters().refused_by_code["timed_out"], 1u);
}

TEST_F(LinkAttackTest, Tls12IsRefused) {
  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> ctx(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  SSL_CTX_set_max_proto_version(ctx.get(), TLS1_2_VERSION);
  raw_tls(ctx.get(), [](SSL* ssl) { EXPECT_FALSE(SSL_is_init_finished(ssl)); });
  EXPECT_EQ(refused(), 1u);
}

TEST_F(LinkAttackTest, AClientWithoutCertificateIsRefused) {
  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> ctx(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  raw_tls(ctx.get(), [](SSL*) {});
  EXPECT_EQ(refused(), 1u);
  EXPECT_EQ(node_.handler.ups, 0);
}

TEST_F(LinkAttackTest, ACertificateOfAnotherKindIsRefused) {
  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> ctx(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  std::unique_ptr<X509, void (*)(X509*)> certificate(X509_new(), X509_free);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), key.get());
  X509_sign(certificate.get(), key.get(), EVP_sha256());
  SSL_CTX_use_certificate(ctx.get(), certificate.get());
  SSL_CTX_use_PrivateKey(ctx.get(), key.get());
  raw_tls(ctx.get(), [](SSL*) {});
  EXPECT_EQ(refused(), 1u);
}

TEST_F(LinkAttackTest, NoSessionCanBeResumed) {
  const NodeIdentity identity = NodeIdentity::make(SigningKey::generate()).value();
  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> ctx(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  SSL_CTX_use_certificate(ctx.get(), identity.certificate());
  SSL_CTX_use_PrivateKey(ctx.get(), identity.private_key());
  node_.hub.reset();
  auto with = options(node_);
  with.timing.handshake = 200ms;  // the client says nothing after TLS
  start(node_, std::move(with));
  raw_tls(ctx.get(), [](SSL* ssl) {
    EXPECT_TRUE(SSL_is_init_finished(ssl));
    EXPECT_EQ(SSL_version(ssl), TLS1_3_VERSION);
    EXPECT_FALSE(SSL_SESSION_is_resumable(SSL_get0_session(ssl)));
  });
}

TEST_F(LinkAttackTest, ALongFirstMessageIsRefused) {
  HostilePeer peer(io_);
  peer.connect(node_.endpoint(), [&] { peer.say_raw(HostilePeer::prefix(100'000, 0)); });
  ASSERT_TRUE(until([&] { return peer.gone; }));
  EXPECT_EQ(node_.hub->counters().refused_by_code["limit"], 1u);
}

TEST_F(LinkAttackTest, APayloadBeforeTheProofIsRefused) {
  HostilePeer peer(io_);
  peer.connect(node_.endpoint(), [&] { peer.say_raw(HostilePeer::prefix(10, 1)); });
  ASSERT_TRUE(until([&] { return peer.gone; }));
  EXPECT_EQ(node_.hub->counters().refused_by_code["limit"], 1u);
}

TEST_F(LinkAttackTest, MessagesBeforeTheProofAreRefused) {
  HostilePeer peer(io_);
  peer.connect(node_.endpoint(), [&] {
    wire::LinkMessage message;
    message.mutable_records_wanted()->set_channel("x");
    peer.say(message.SerializeAsString());
  });
  ASSERT_TRUE(until([&] { return peer.gone; }));
  EXPECT_EQ(refused(), 1u);
  EXPECT_TRUE(node_.handler.messages.empty());
}

TEST_F(LinkAttackTest, AReflectedProofIsRefused) {
  HostilePeer peer(io_);
  peer.on_frame = [&](const Frame& frame) { peer.say(std::string(as_text(frame.header))); };
  const LinkEndpoint there = peer.accept(nullptr);
  node_.hub->dial(there, peer.identity.key());
  ASSERT_TRUE(until([&] { return node_.hub->counters().dials_failed == 1; }));
  EXPECT_EQ(peer.frames.size(), 1u);
  EXPECT_EQ(node_.handler.ups, 0);
}

TEST_F(LinkAttackTest, AProofIsGoodForOneSessionOnly) {
  std::string recorded;
  HostilePeer peer(io_);
  peer.connect(node_.endpoint(), [&] {
    recorded = peer.offer(secret_, LinkPurpose::control).SerializeAsString();
    peer.connection->close();
  });
  ASSERT_TRUE(until([&] { return !recorded.empty(); }));
  peer.connect(node_.endpoint(), [&] { peer.say(recorded); });
  ASSERT_TRUE(until([&] { return peer.gone; }));
  EXPECT_EQ(node_.hub->counters().refused_by_code["untrusted"], 1u);
  EXPECT_EQ(node_.handler.ups, 0);
}

// A man in the middle with a session of his own to each end.
TEST_F(LinkAttackTest, AProofPassedOnIsRefused) {
  TestNode victim;
  start(victim);
  HostilePeer towards_victim(io_), towards_node(io_, towards_victim.identity);
  bool passed_on = false;
  towards_victim.on_frame = [&](const Frame& frame) {
    const std::string offer(as_text(frame.header));
    towards_node.connect(node_.endpoint(), [&towards_node, &passed_on, offer] {
      towards_node.say(offer);
      passed_on = true;
    });
  };
  victim.hub->dial(towards_victim.accept(nullptr), std::nullopt);  // it does not know whom to expect
  ASSERT_TRUE(until([&] { return towards_node.gone; }));
  EXPECT_TRUE(passed_on);
  EXPECT_TRUE(towards_node.frames.empty());
  EXPECT_EQ(node_.hub->counters().refused_by_code["untrusted"], 1u);
  EXPECT_EQ(node_.handler.ups + victim.handler.ups, 0);
}

TEST_F(LinkAttackTest, AnIntroductionWithAnotherKeyIsRefused) {
  HostilePeer peer(io_);
  peer.connect(node_.endpoint(), [&] {
    auto offer = peer.offer(secret_, LinkPurpose::control);
    offer.mutable_hello()->set_node(std::string(node_.key().text()));
    peer.say(offer.SerializeAsString());
  });
  ASSERT_TRUE(until([&] { return peer.gone; }));
  EXPECT_EQ(node_.hub->counters().refused_by_code["untrusted"], 1u);
}

TEST_F(LinkAttackTest, AStripeWithoutALinkIsRefused) {
  HostilePeer peer(io_);
  peer.connect(node_.endpoint(),
               [&] { peer.say(peer.offer(secret_, LinkPurpose::stripe).SerializeAsString()); });
  ASSERT_TRUE(until([&] { return peer.gone; }));
  EXPECT_EQ(node_.hub->counters().refused_by_code["untrusted"], 1u);
}

TEST_F(LinkAttackTest, TooManyUnprovenConnectionsOfOneAddressAreTurnedAway) {
  TestNode strict;
  auto with = options(strict);
  with.admission = {.per_address = 3, .total = 100};
  start(strict, std::move(with));
  std::vector<tcp::socket> sockets;
  for (int i = 0; i < 10; ++i) {
    sockets.emplace_back(io_);
    sockets.back().connect({boost::asio::ip::make_address("127.0.0.1"), strict.endpoint().port});
  }
  EXPECT_TRUE(until([&] { return strict.hub->counters().turned_away == 7; }));
  sockets.clear();
  TestNode honest;
  start(honest);
  link(honest, strict);
}

TEST_F(LinkAttackTest, AFullHouseOfSilentStrangersKeepsNobodyOut) {
  TestNode strict;
  auto with = options(strict);
  with.admission = {.per_address = 100, .total = 5};
  start(strict, std::move(with));
  std::vector<tcp::socket> sockets;
  for (int i = 0; i < 20; ++i) {
    sockets.emplace_back(io_);
    sockets.back().connect({boost::asio::ip::make_address("127.0.0.1"), strict.endpoint().port});
  }
  ASSERT_TRUE(until([&] { return strict.hub->counters().accepted == 20; }));
  TestNode honest;
  start(honest);
  link(honest, strict);
}

// Hostile members: proven, but not to be believed.

TEST_F(LinkAttackTest, AnOversizedMessageEndsTheLink) {
  HostilePeer peer(io_);
  join(peer);
  peer.say_raw(HostilePeer::prefix(0x7fffffff, 0));
  ASSERT_TRUE(until([&] { return node_.handler.downs == 1; }));
  EXPECT_EQ(node_.handler.last_reason.code, ErrorCode::limit);
  EXPECT_EQ(node_.hub->counters().links_broken_by_peer, 1u);
}

TEST_F(LinkAttackTest, AnUnknownMessageEndsTheLink) {
  HostilePeer peer(io_);
  join(peer);
  peer.say(std::string("\xc2\xa9\x07\x01x", 5));
  ASSERT_TRUE(until([&] { return node_.handler.downs == 1; }));
  EXPECT_EQ(node_.handler.last_reason.code, ErrorCode::malformed);
}

TEST_F(LinkAttackTest, APayloadWhereNoneBelongsEndsTheLink) {
  HostilePeer peer(io_);
  join(peer);
  wire::LinkMessage message;
  message.mutable_records_wanted();
  peer.say(message.SerializeAsString(), Bytes(10));
  ASSERT_TRUE(until([&] { return node_.handler.downs == 1; }));
  EXPECT_EQ(node_.handler.last_reason.code, ErrorCode::malformed);
}

TEST_F(LinkAttackTest, UnfinishedMessagesCannotFillTheMemory) {
  TestNode small;
  auto with = options(small);
  with.max_unfinished = 1u << 20;
  start(small, std::move(with));
  HostilePeer peer(io_);
  peer.connect(small.endpoint(),
               [&] { peer.say(peer.offer(secret_, LinkPurpose::control).SerializeAsString()); });
  ASSERT_TRUE(until([&] { return small.handler.ups == 1; }));
  wire::LinkMessage message;
  message.mutable_chunk()->set_bundle(std::string(32, 'x'));
  Bytes bytes = frame_head(message, limits::kMaxChunkBytes).value();
  bytes.resize(bytes.size() + (2u << 20));
  peer.say_raw(std::move(bytes));
  ASSERT_TRUE(until([&] { return small.handler.downs == 1; }));
  EXPECT_EQ(small.handler.last_reason.code, ErrorCode::limit);
}

TEST_F(LinkAttackTest, AMemberThatFallsSilentIsDropped) {
  TestNode impatient;
  auto with = options(impatient);
  with.timing.heartbeat = 50ms;
  with.timing.silence = 200ms;
  start(impatient, std::move(with));
  HostilePeer peer(io_);
  peer.connect(impatient.endpoint(),
               [&] { peer.say(peer.offer(secret_, LinkPurpose::control).SerializeAsString()); });
  ASSERT_TRUE(until([&] { return impatient.handler.downs == 1; }));
  EXPECT_EQ(impatient.handler.last_reason.code, ErrorCode::timed_out);
}

TEST_F(LinkAttackTest, ABrokenStripeTakesTheLinkDown) {
  HostilePeer peer(io_);
  join(peer);
  auto control = peer.connection;
  peer.frames.clear();
  peer.connect(node_.endpoint(),
               [&] { peer.say(peer.offer(secret_, LinkPurpose::stripe).SerializeAsString()); });
  const NodeKey key = peer.identity.key();
  ASSERT_TRUE(until([&] { return node_.hub->stats(key)->stripes == 1 && !peer.frames.empty(); }));
  peer.connection->close();
  ASSERT_TRUE(until([&] { return node_.handler.downs == 1; }));
  control->close();
}

TEST_F(LinkAttackTest, AHandlerThatBansWhenALinkIsReplacedEndsWithNone) {
  HostilePeer peer(io_);
  join(peer);
  const NodeKey key = peer.identity.key();
  node_.handler.on_down = [&](const NodeKey& lost) { node_.hub->ban(lost, "enough"); };
  HostilePeer again(io_, peer.identity);
  again.connect(node_.endpoint(),
                [&] { again.say(again.offer(secret_, LinkPurpose::control).SerializeAsString()); });
  ASSERT_TRUE(until([&] { return node_.handler.downs == 1 && again.gone; }));
  EXPECT_FALSE(node_.hub->linked(key));
  EXPECT_EQ(node_.handler.ups, 1);
}

TEST_F(LinkAttackTest, AMemberMayAskForStripesButNotForManyMore) {
  HostilePeer peer(io_);
  wire::LinkMessage wish;
  wish.mutable_heartbeat()->set_sent_us(1);
  wish.mutable_heartbeat()->set_stripes(1'000'000);
  peer.on_frame = [&](const Frame&) {
    if (peer.frames.size() > 1) return;
    peer.say(peer.answer(secret_, LinkPurpose::control).SerializeAsString());
    peer.say(wish.SerializeAsString());
  };
  node_.hub->dial(peer.accept(nullptr), peer.identity.key());
  ASSERT_TRUE(until([&] { return node_.handler.ups == 1; }));
  ASSERT_TRUE(until([&] { return peer.knocks() == kMaxStripes; }));
  peer.connection->close();
}

TEST_F(LinkAttackTest, StripesOfOneMemberAreBounded) {
  HostilePeer peer(io_);
  join(peer);
  std::vector<std::unique_ptr<HostilePeer>> stripes;
  const NodeKey key = peer.identity.key();
  for (std::uint32_t i = 0; i < kMaxStripes + 5; ++i) {
    stripes.push_back(std::make_unique<HostilePeer>(io_, peer.identity));
    HostilePeer& stripe = *stripes.back();
    stripe.connect(node_.endpoint(), [this, &stripe] {
      stripe.say(stripe.offer(secret_, LinkPurpose::stripe).SerializeAsString());
    });
    ASSERT_TRUE(until([&] { return stripe.gone || !stripe.frames.empty(); }));
  }
  EXPECT_EQ(node_.hub->stats(key)->stripes, kMaxStripes);
  EXPECT_EQ(refused(), 5u);
  peer.connection->close();
  for (auto& stripe : stripes) stripe->connection->close();
}

}  // namespace
}  // namespace p2pw::testing
