#include "chunker/dtype.h"

#include <gtest/gtest.h>

#include "tests/support/checkpoint.h"

namespace p2pw {
namespace {

TEST(Dtype, EveryNameOfTheFormatIsKnownAndOnlyThose) {
  for (Dtype dtype : testing::kAllDtypes) EXPECT_EQ(dtype_from_name(name_of(dtype)), dtype) << name_of(dtype);
  for (const char* name : {"BOOL", "F4", "F6_E2M3", "F6_E3M2", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0",
                           "F8_E4M3FNUZ", "F8_E5M2FNUZ", "I16", "U16", "F16", "BF16", "I32", "U32", "F32", "C64",
                           "F64", "I64", "U64"}) {
    EXPECT_TRUE(dtype_from_name(name)) << name;
  }
  for (const char* name : {"", "bf16", "BF17", "bytes", "F128"}) EXPECT_FALSE(dtype_from_name(name)) << name;
}

TEST(Dtype, SizesAreThoseOfTheFormat) {
  EXPECT_EQ(bits_of(Dtype::f4), 4u);
  EXPECT_EQ(bits_of(Dtype::f6_e2m3), 6u);
  EXPECT_EQ(bits_of(Dtype::bf16), 16u);
  EXPECT_EQ(bits_of(Dtype::c64), 64u);
  EXPECT_EQ(element_bytes(Dtype::f4), 1u);
  EXPECT_EQ(element_bytes(Dtype::f32), 4u);
  EXPECT_EQ(element_bytes(Dtype::bytes), 1u);
}

TEST(Dtype, NumbersStandInFramesAndNeverChange) {
  EXPECT_EQ(static_cast<int>(Dtype::bytes), 0);
  EXPECT_EQ(static_cast<int>(Dtype::bf16), 12);
  EXPECT_EQ(static_cast<int>(Dtype::u64), 19);
  EXPECT_EQ(static_cast<int>(Dtype::f6_e3m2), 22);
}

}  // namespace
}  // namespace p2pw
