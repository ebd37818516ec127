#include "protocol/token.h"

#include <gtest/gtest.h>

#include "protocol/limits.h"
#include "tests/protocol/make_records.h"

namespace p2pw {
namespace {

using namespace p2pw::testing;

JoinToken token() {
  JoinToken out;
  out.bootstraps = {{{"10.0.0.1", 7733}, blob<NodeKey>(1)}, {{"fe80::1%eth0", 65535}, blob<NodeKey>(2)}};
  out.publisher = {blob<KeyId>(3), blob<PublicKey>(4)};
  out.channel = channel();
  out.enrolment = blob<EnrolmentId>(5);
  out.secret = blob<EnrolmentSecret>(6);
  out.expires = kNow;
  return out;
}

TEST(JoinToken, RoundTrip) {
  const auto text = token().encode();
  ASSERT_TRUE(text.ok()) << text.error().message;
  const auto again = JoinToken::parse(*text);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(*again, token());
  EXPECT_EQ(JoinToken::parse("  " + *text + "\r\n").value(), token()) << "as read from a terminal or a file";
}

TEST(JoinToken, IsOneShellSafeWord) {
  const std::string text = token().encode().value();
  EXPECT_TRUE(text.starts_with("p2pw1"));
  EXPECT_EQ(text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"),
            std::string::npos);
}

TEST(JoinToken, LargestFits) {
  JoinToken large = token();
  large.channel = channel(std::string(64, 'c'));
  large.bootstraps.assign(8, {{std::string(253, 'h'), 1}, blob<NodeKey>(1)});
  const auto text = large.encode();
  ASSERT_TRUE(text.ok());
  EXPECT_LE(text->size(), limits::kMaxTokenLength);
  EXPECT_EQ(JoinToken::parse(*text).value(), large);
}

TEST(JoinToken, CutAnywhereIsRecognised) {
  const std::string text = token().encode().value();
  for (std::size_t size = 5; size < text.size(); ++size) {
    const auto parsed = JoinToken::parse(text.substr(0, size));
    ASSERT_FALSE(parsed.ok()) << size;
    EXPECT_EQ(parsed.error().code, ErrorCode::usage);
    EXPECT_NE(parsed.error().message.find("cut"), std::string::npos) << parsed.error().message;
  }
}

TEST(JoinToken, FlippedOrExtraCharacterIsRecognised) {
  const std::string text = token().encode().value();
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] = damaged[i] == 'A' ? 'B' : 'A';
    EXPECT_FALSE(JoinToken::parse(damaged).ok()) << i;
    damaged = text;
    damaged.insert(i, 1, 'A');
    EXPECT_FALSE(JoinToken::parse(damaged).ok()) << i;
  }
  EXPECT_FALSE(JoinToken::parse(text + "A").ok());
  EXPECT_FALSE(JoinToken::parse(text + " " + text).ok());
}

TEST(JoinToken, OtherThingsAreNamed) {
  EXPECT_EQ(JoinToken::parse("").error().code, ErrorCode::usage);
  EXPECT_NE(JoinToken::parse("hello").error().message.find("not a join token"), std::string::npos);
  EXPECT_EQ(JoinToken::parse("p2pw2abc").error().code, ErrorCode::unsupported);
  EXPECT_EQ(JoinToken::parse(std::string(limits::kMaxTokenLength + 1, 'A')).error().code, ErrorCode::usage);
}

TEST(JoinToken, OutOfBoundsIsNotEncoded) {
  const auto refused = [](auto spoil) {
    JoinToken bad = token();
    spoil(bad);
    const auto text = bad.encode();
    return !text.ok() && text.error().code == ErrorCode::config;
  };
  EXPECT_TRUE(refused([](JoinToken& t) { t.bootstraps.clear(); }));
  EXPECT_TRUE(refused([](JoinToken& t) { t.bootstraps.resize(9, t.bootstraps[0]); }));
  EXPECT_TRUE(refused([](JoinToken& t) { t.bootstraps[0].endpoint.port = 0; }));
  EXPECT_TRUE(refused([](JoinToken& t) { t.bootstraps[0].endpoint.host = "a b"; }));
  EXPECT_TRUE(refused([](JoinToken& t) { t.bootstraps[0].endpoint.host = "-rf"; }));
  EXPECT_TRUE(refused([](JoinToken& t) { t.bootstraps[0].endpoint.host = std::string(254, 'h'); }));
  EXPECT_TRUE(refused([](JoinToken& t) { t.channel = Channel(); }));
}

TEST(JoinToken, Expiry) {
  EXPECT_FALSE(token().expired(kNow - std::chrono::milliseconds(1)));
  EXPECT_TRUE(token().expired(kNow));
}

TEST(Endpoint, Text) {
  EXPECT_EQ((Endpoint{"10.0.0.1", 80}.str()), "10.0.0.1:80");
  EXPECT_EQ((Endpoint{"::1", 80}.str()), "[::1]:80");
  for (auto good : {"a", "node-1.example.org", "::1", "fe80::1%eth0", "under_score"})
    EXPECT_TRUE(is_host(good)) << good;
  for (auto bad : {"", "-x", ".x", "a/b", "a b", "a;b", "a\nb", "[::1]", "\xc3\xa9"})
    EXPECT_FALSE(is_host(bad)) << bad;
}

}  // namespace
}  // namespace p2pw
