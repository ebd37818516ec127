#include "chunker/slot_state.h"

#include <gtest/gtest.h>

namespace p2pw {
namespace {

SlotState sample() {
  SlotState state;
  state.whole = true;
  state.base = Version(41);
  state.base_seal.data[3] = 7;
  state.base_table_hash.data[1] = 9;
  state.layout.data[31] = 1;
  state.byte_digests.resize(3);
  state.tensor_digests.resize(5);
  state.tensor_digests[4].data[15] = 200;
  state.target = Version(42);
  state.target_run.data[0] = 5;
  return state;
}

TEST(SlotState, ReadsBackWhatItWrote) {
  auto back = SlotState::decode(sample().encode());
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, sample());
}

TEST(SlotState, RefusesEveryTruncationAndEveryFlippedByte) {
  Bytes good = sample().encode();
  for (std::size_t n = 0; n < good.size(); ++n) {
    EXPECT_FALSE(SlotState::decode(ByteView(good).first(n))) << n;
    Bytes bad = good;
    bad[n] ^= std::byte{1};
    EXPECT_FALSE(SlotState::decode(bad)) << n;
  }
  Bytes longer = good;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(SlotState::decode(longer));
}

TEST(SlotState, NamesAFormatItDoesNotKnow) {
  Bytes other = sample().encode();
  other[8] = std::byte{9};
  auto result = SlotState::decode(other);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::unsupported);
  EXPECT_NE(result.error().message.find("format 9"), std::string::npos);
}

}  // namespace
}  // namespace p2pw
