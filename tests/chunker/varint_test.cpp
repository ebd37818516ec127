#include "chunker/varint.h"

#include <gtest/gtest.h>

namespace p2pw {
namespace {

TEST(Varint, EveryLengthRoundTripsAndNothingIsLeft) {
  for (unsigned shift = 0; shift < 64; ++shift) {
    for (std::uint64_t value : {(1ull << shift) - 1, 1ull << shift, ~0ull >> shift}) {
      Bytes out;
      put_varint(out, value);
      ByteReader reader(out);
      std::uint64_t back = 0;
      ASSERT_TRUE(reader.varint(back)) << value;
      EXPECT_EQ(back, value);
      EXPECT_TRUE(reader.done());
      EXPECT_FALSE(ByteReader(ByteView(out).first(out.size() - 1)).varint(back)) << "cut short";
    }
  }
}

TEST(Varint, ANumberHasOneEncoding) {
  std::uint64_t value = 0;
  EXPECT_FALSE(ByteReader(Bytes{std::byte{0x80}, std::byte{0}}).varint(value));
  EXPECT_TRUE(ByteReader(Bytes{std::byte{0}}).varint(value));
  Bytes too_large(9, std::byte{0xff});
  too_large.push_back(std::byte{2});
  EXPECT_FALSE(ByteReader(too_large).varint(value));
  too_large.back() = std::byte{1};
  EXPECT_TRUE(ByteReader(too_large).varint(value));
  EXPECT_EQ(value, ~0ull);
}

TEST(ByteReader, AnswersFalseAtTheEnd) {
  Bytes bytes(7);
  std::uint64_t value = 0;
  ByteView view;
  EXPECT_FALSE(ByteReader(bytes).u64(value));
  EXPECT_FALSE(ByteReader(bytes).bytes(8, view));
  EXPECT_FALSE(ByteReader(bytes).bytes(SIZE_MAX, view));
  Bytes eight;
  put_u64(eight, 0x0102030405060708u);
  EXPECT_EQ(eight[0], std::byte{8});
  EXPECT_TRUE(ByteReader(eight).u64(value));
  EXPECT_EQ(value, 0x0102030405060708u);
}

}  // namespace
}  // namespace p2pw
