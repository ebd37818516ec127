#include "protocol/result.h"

#include <gtest/gtest.h>

#include "protocol/ids.h"

namespace p2pw {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return fail(ErrorCode::bad_input, "odd");
  return n / 2;
}
Result<int> quarter(int n) {
  P2PW_TRY(int h, half(n));
  return half(h);
}

TEST(Result, TryReturnsTheFirstError) {
  EXPECT_EQ(quarter(8).value(), 2);
  EXPECT_EQ(quarter(6).error().message, "odd");
}

TEST(Result, CodesHaveNamesAndExitCodes) {
  EXPECT_EQ(name_of(ErrorCode::wrong_parent), "wrong_parent");
  EXPECT_EQ(exit_code_of(ErrorCode::wrong_parent), 4);
  EXPECT_EQ(exit_code_of(ErrorCode::busy), 7);
  EXPECT_EQ(exit_code_of(ErrorCode::interrupted), 130);
}

TEST(Ids, NamesAreChecked) {
  EXPECT_TRUE(Channel::parse("policy-7b.v2").ok());
  for (auto bad : {"", "Upper", "../x", "a b", ".hidden", "a/b"})
    EXPECT_FALSE(Channel::parse(bad).ok()) << bad;
  EXPECT_FALSE(Channel::parse(std::string(65, 'a')).ok());
}

TEST(Ids, HexRoundTrip) {
  auto key = NodeKey::from_hex("00ff10aa000000000000000000000000000000000000000000000000000000ee");
  ASSERT_TRUE(key);
  EXPECT_EQ(key->hex(), "00ff10aa000000000000000000000000000000000000000000000000000000ee");
  EXPECT_FALSE(NodeKey::from_hex("00"));
  EXPECT_FALSE(NodeKey::from_hex(std::string(64, 'g')));
}

TEST(Ids, SlabSpacesAreApart) {
  EXPECT_TRUE(SlabId::bytes(3).is_bytes());
  EXPECT_FALSE(SlabId::tensor(3).is_bytes());
  EXPECT_EQ(SlabId::bytes(3).index(), 3u);
}

}  // namespace
}  // namespace p2pw
