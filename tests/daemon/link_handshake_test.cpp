#include "daemon/link/handshake.h"

#include <gtest/gtest.h>

namespace p2pw {
namespace {

using State = Handshake::State;

NodeKey key_of(std::uint8_t n) {
  NodeKey key;
  key.data.fill(n);
  return key;
}

wire::Hello hello_of(const NodeKey& key, const std::string& region = "eu") {
  wire::Hello hello;
  hello.set_node(std::string(key.text()));
  hello.set_region(region);
  return hello;
}

class HandshakeTest : public ::testing::Test {
 protected:
  HandshakeTest() {
    at_a_.set_secrets(secrets());
    at_b_.set_secrets(secrets());
    session_.fill(7);
  }
  std::vector<FleetSecret> secrets() const {
    std::vector<FleetSecret> made;
    made.push_back(secret_.clone());
    return made;
  }
  Handshake from_a(LinkPurpose purpose = LinkPurpose::control, std::size_t attempt = 0) {
    return Handshake::initiate(at_a_, hello_of(a_),
                               {.purpose = purpose, .expected = b_, .attempt = attempt, .ticket = {}});
  }
  Handshake at_b() { return Handshake::respond(at_b_, hello_of(b_, "us")); }

  // The initiator's offer; both are in the same TLS session.
  wire::Handshake offer(Handshake& initiator, Handshake& responder) {
    auto made = initiator.secured(b_, session_);
    EXPECT_TRUE(made.ok() && made->has_value());
    EXPECT_TRUE(responder.secured(a_, session_).ok());
    return **made;
  }
  static Status give(Handshake& to, const wire::Handshake& message) {
    return to.received(as_bytes(message.SerializeAsString()));
  }
  // Everything to its end; the responder's verdict, then the initiator's.
  Status play(Handshake& initiator, Handshake& responder) {
    P2PW_CHECK(give(responder, offer(initiator, responder)));
    P2PW_TRY(const wire::Handshake answer, responder.answer());
    return give(initiator, answer);
  }

  const NodeKey a_ = key_of(1), b_ = key_of(2);
  FleetSecret secret_ = FleetSecret::generate();
  LinkTrust at_a_{a_}, at_b_{b_};
  Exporter session_{};
};

TEST_F(HandshakeTest, BothEndsProveThemselves) {
  for (auto purpose : {LinkPurpose::control, LinkPurpose::stripe}) {
    Handshake initiator = from_a(purpose), responder = at_b();
    ASSERT_TRUE(play(initiator, responder).ok());
    EXPECT_EQ(initiator.state(), State::proven);
    EXPECT_EQ(responder.state(), State::proven);
    EXPECT_EQ(initiator.peer().key(), b_);
    EXPECT_EQ(responder.peer().key(), a_);
    EXPECT_EQ(responder.purpose(), purpose);
    EXPECT_EQ(responder.peer().secret_id(), secret_.id());
    if (purpose == LinkPurpose::control) {
      EXPECT_EQ(initiator.peer().hello().region(), "us");
    }
  }
}

TEST_F(HandshakeTest, AnotherSecretIsRefused) {
  std::vector<FleetSecret> other;
  other.push_back(FleetSecret::generate());
  at_a_.set_secrets(std::move(other));
  Handshake initiator = from_a(), responder = at_b();
  auto refused = give(responder, offer(initiator, responder));
  EXPECT_EQ(refused.error().code, ErrorCode::untrusted);
  EXPECT_EQ(responder.state(), State::refused);
}

TEST_F(HandshakeTest, TheRightIdWithTheWrongSecretIsRefused) {
  Handshake initiator = from_a(), responder = at_b();
  auto message = offer(initiator, responder);
  auto proof = message.proof();
  proof[31] = static_cast<char>(proof[31] ^ 1);
  message.set_proof(proof);
  EXPECT_EQ(give(responder, message).error().code, ErrorCode::untrusted);
}

TEST_F(HandshakeTest, AProofOfAnotherSessionIsRefused) {
  Handshake initiator = from_a(), responder = at_b();
  auto made = initiator.secured(b_, session_);
  Exporter other{};
  other.fill(8);
  ASSERT_TRUE(responder.secured(a_, other).ok());
  EXPECT_EQ(give(responder, **made).error().code, ErrorCode::untrusted);
}

TEST_F(HandshakeTest, AProofUnderAnotherKeyIsRefused) {
  Handshake initiator = from_a(), responder = at_b();
  auto made = initiator.secured(b_, session_);
  ASSERT_TRUE(responder.secured(key_of(3), session_).ok());  // a man in the middle passes it on
  EXPECT_EQ(give(responder, **made).error().code, ErrorCode::untrusted);
}

TEST_F(HandshakeTest, AReflectedProofIsRefused) {
  Handshake initiator = from_a(), responder = at_b();
  const auto message = offer(initiator, responder);
  EXPECT_EQ(give(initiator, message).error().code, ErrorCode::untrusted);
  EXPECT_EQ(initiator.state(), State::refused);
}

TEST_F(HandshakeTest, AProofForAnotherPurposeIsRefused) {
  Handshake initiator = from_a(LinkPurpose::stripe), responder = at_b();
  auto message = offer(initiator, responder);
  message.set_purpose(wire::Handshake::CONTROL);
  *message.mutable_hello() = hello_of(a_);
  EXPECT_EQ(give(responder, message).error().code, ErrorCode::untrusted);
}

TEST_F(HandshakeTest, AnEnrolmentSecretOpensNoOtherConnection) {
  EnrolmentSecret known;
  known.data.fill(9);
  EnrolmentId id;
  id.data.fill(4);
  at_b_.set_enrolments(
      [&](const EnrolmentId& asked) { return asked == id ? std::optional(known) : std::nullopt; });
  const auto attempt = [&](const EnrolmentSecret& secret, bool as_control) -> Status {
    Handshake initiator = Handshake::initiate(
        at_a_, hello_of(a_),
        {.purpose = LinkPurpose::enrol, .expected = b_, .attempt = 0, .ticket = EnrolmentTicket{id, secret}});
    Handshake responder = at_b();
    auto message = offer(initiator, responder);
    if (as_control) {
      message.set_purpose(wire::Handshake::CONTROL);
      message.set_secret_id(std::string(secret_.id().text()));
      *message.mutable_hello() = hello_of(a_);
    }
    P2PW_CHECK(give(responder, message));
    EXPECT_EQ(responder.peer().enrolment_id(), id);
    P2PW_TRY(const auto answer, responder.answer());
    return give(initiator, answer);
  };
  EXPECT_TRUE(attempt(known, false).ok());
  EXPECT_EQ(attempt(known, true).error().code, ErrorCode::untrusted);
  EnrolmentSecret guessed;
  EXPECT_EQ(attempt(guessed, false).error().code, ErrorCode::untrusted);
  at_b_.set_enrolments([](const EnrolmentId&) { return std::nullopt; });  // expired
  EXPECT_EQ(attempt(known, false).error().code, ErrorCode::untrusted);
}

TEST_F(HandshakeTest, TheExpectedKeyAndTheListAndTheBannedAreLookedAtFirst) {
  Handshake other = from_a();
  EXPECT_EQ(other.secured(key_of(3), session_).error().code, ErrorCode::untrusted);
  EXPECT_EQ(other.state(), State::refused);
  Handshake self = Handshake::respond(at_b_, hello_of(b_));
  EXPECT_EQ(self.secured(b_, session_).error().code, ErrorCode::untrusted);
  at_b_.set_allow_list(AllowList{{key_of(9), {}}});
  Handshake unlisted = at_b();
  EXPECT_EQ(unlisted.secured(a_, session_).error().code, ErrorCode::untrusted);
  at_b_.set_allow_list(std::nullopt);
  at_b_.ban(a_, "a wrong chunk");
  Handshake banned = at_b();
  EXPECT_EQ(banned.secured(a_, session_).error().code, ErrorCode::untrusted);
}

TEST_F(HandshakeTest, TheAllowListFixesRegionAndRoles) {
  AllowList list;
  list[a_] =
      AllowedNode{.region = std::move(Region::parse("asia")).value(), .trainer = false, .bootstrap = true};
  at_b_.set_allow_list(list);
  wire::Hello boast = hello_of(a_, "us");
  boast.set_trainer(true);
  Handshake initiator = Handshake::initiate(
      at_a_, boast, {.purpose = LinkPurpose::control, .expected = b_, .attempt = 0, .ticket = {}});
  Handshake responder = at_b();
  ASSERT_TRUE(play(initiator, responder).ok());
  EXPECT_EQ(responder.peer().hello().region(), "asia");
  EXPECT_FALSE(responder.peer().hello().trainer());
  EXPECT_TRUE(responder.peer().hello().bootstrap());
}

TEST_F(HandshakeTest, IntroductionsAreBounded) {
  const auto refused = [&](const std::function<void(wire::Hello&)>& change) {
    wire::Hello hello = hello_of(a_);
    change(hello);
    Handshake initiator = Handshake::initiate(
        at_a_, hello, {.purpose = LinkPurpose::control, .expected = b_, .attempt = 0, .ticket = {}});
    Handshake responder = at_b();
    return !play(initiator, responder).ok();
  };
  EXPECT_FALSE(refused([](wire::Hello&) {}));
  EXPECT_TRUE(refused([](wire::Hello& h) { h.set_node(std::string(32, 'x')); }));
  EXPECT_TRUE(refused([](wire::Hello& h) { h.set_region("../up"); }));
  EXPECT_TRUE(refused([](wire::Hello& h) { h.set_region(""); }));
  EXPECT_TRUE(refused([](wire::Hello& h) { h.add_channels("Not A Name"); }));
  EXPECT_TRUE(refused([](wire::Hello& h) { h.set_name(std::string(500, 'n')); }));
  EXPECT_TRUE(refused([](wire::Hello& h) {
    for (int i = 0; i < 100; ++i) h.add_endpoints()->set_port(1);
  }));
  EXPECT_TRUE(refused([](wire::Hello& h) { h.add_endpoints()->set_port(70'000); }));
}

TEST_F(HandshakeTest, OtherProtocolsAndGarbageAreRefused) {
  {
    Handshake initiator = from_a(), responder = at_b();
    auto message = offer(initiator, responder);
    message.set_protocol(kLinkProtocol + 1);
    EXPECT_EQ(give(responder, message).error().code, ErrorCode::unsupported);
  }
  {
    Handshake initiator = from_a(), responder = at_b();
    auto message = offer(initiator, responder);
    message.set_purpose(static_cast<wire::Handshake::Purpose>(77));
    EXPECT_EQ(give(responder, message).error().code, ErrorCode::malformed);
  }
  Handshake responder = at_b();
  ASSERT_TRUE(responder.secured(a_, session_).ok());
  EXPECT_EQ(responder.received(as_bytes("\xff\xff\xff")).error().code, ErrorCode::malformed);
  EXPECT_EQ(responder.state(), State::refused);
  EXPECT_FALSE(responder.answer().ok());
}

TEST_F(HandshakeTest, NothingIsTakenOutOfTurn) {
  Handshake early = at_b();
  EXPECT_FALSE(early.received(as_bytes("x")).ok());
  EXPECT_EQ(early.state(), State::refused);
  Handshake initiator = from_a(), responder = at_b();
  const auto message = offer(initiator, responder);
  ASSERT_TRUE(give(responder, message).ok());
  EXPECT_EQ(responder.state(), State::deciding);
  EXPECT_FALSE(give(responder, message).ok());
  EXPECT_EQ(responder.state(), State::refused);
}

TEST_F(HandshakeTest, TheNextAttemptTriesTheOlderSecret) {
  const FleetSecret older = FleetSecret::generate();
  std::vector<FleetSecret> both = secrets();
  both.push_back(older.clone());
  at_a_.set_secrets(std::move(both));
  std::vector<FleetSecret> only_older;
  only_older.push_back(older.clone());
  at_b_.set_secrets(std::move(only_older));
  Handshake first = from_a(LinkPurpose::control, 0), second = from_a(LinkPurpose::control, 1);
  Handshake responder = at_b(), again = at_b();
  EXPECT_FALSE(play(first, responder).ok());
  EXPECT_TRUE(play(second, again).ok());
  EXPECT_EQ(again.peer().secret_id(), older.id());
}

}  // namespace
}  // namespace p2pw
