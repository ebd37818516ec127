// Frames from outside: whatever they hold, decoding ends with an answer, and never reads or writes where it must not
// (which the sanitizers see).
#include <gtest/gtest.h>

#include <random>

#include "protocol/limits.h"
#include "tests/chunker/codec_data.h"

namespace p2pw::codec {
namespace {

Bytes delta_of(const SlabPair& pair, Dtype dtype) {
  Bytes frame;
  SlabEncoder().encode_delta(pair.before, pair.after, dtype, frame);
  return frame;
}

void decode_everywhere(const Bytes& frame, Dtype dtype, const Bytes& parent) {
  static SlabDecoder decoder;
  for (Simd simd : every_simd()) {
    force_simd(simd);
    Bytes slab = parent;
    (void)decoder.decode_in_place(frame, dtype, slab);
    Bytes out;
    (void)decoder.decode_bytes(frame, parent, out);
  }
  force_simd(detected_simd());
  (void)inspect_frame(frame);
}

TEST(CodecHostile, FramesCutShort) {
  const SlabPair pair = trained_slabs(Dtype::bf16, 20'000, 1e-3, 1);
  const Bytes frame = delta_of(pair, Dtype::bf16);
  SlabDecoder decoder;
  for (std::size_t size = 0; size < frame.size(); size += size < 200 ? 1 : 61) {
    Bytes slab = pair.before;
    const auto decoded = decoder.decode_in_place(ByteView(frame).first(size), Dtype::bf16, slab);
    EXPECT_FALSE(decoded.ok()) << size;
  }
}

TEST(CodecHostile, FlippedBits) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  TestRandom random(seed);
  for (Dtype dtype : {Dtype::bf16, Dtype::f32, Dtype::f8_e4m3, Dtype::i32, Dtype::f64}) {
    const SlabPair pair = model_of(dtype).is_float ? trained_slabs(dtype, 5000, 1e-2, 2) : random_slabs(dtype, 5000, 50, 2);
    Bytes anchor;
    SlabEncoder().encode_anchor(pair.after, dtype, anchor);
    for (const Bytes& good : {delta_of(pair, dtype), anchor}) {
      for (int round = 0; round < 300; ++round) {
        Bytes frame = good;
        // The head decides most, and is small.
        const std::size_t reach = random.below(2) == 0 ? std::min<std::size_t>(frame.size(), 80) : frame.size();
        for (std::uint64_t flips = 1 + random.below(4); flips > 0; --flips) {
          frame[random.below(reach)] ^= static_cast<std::byte>(1u << random.below(8));
        }
        decode_everywhere(frame, dtype, pair.before);
      }
    }
  }
}

TEST(CodecHostile, RandomBytesBehindAGoodHeader) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  TestRandom random(seed);
  const Bytes parent(4000, std::byte{0x3C});
  for (int round = 0; round < 3000; ++round) {
    Bytes frame = {std::byte{kFrameFormat}, static_cast<std::byte>(random.below(4) | random.below(4) << 4),
                   std::byte{0xA0}, std::byte{0x1F},  // 4000
                   static_cast<std::byte>(random.below(128))};
    for (std::uint64_t n = random.below(300); n > 0; --n) frame.push_back(static_cast<std::byte>(random.next() & 0xFF));
    decode_everywhere(frame, kTensorDtypes[random.below(std::size(kTensorDtypes))], parent);
  }
}

TEST(CodecHostile, AnotherParent) {
  const SlabPair pair = trained_slabs(Dtype::bf16, 50'000, 1e-3, 4);
  const Bytes frame = delta_of(pair, Dtype::bf16);
  Bytes other = trained_slabs(Dtype::bf16, 50'000, 0, 5).before;
  for (Simd simd : every_simd()) {
    force_simd(simd);
    Bytes slab = other;
    const auto decoded = SlabDecoder().decode_in_place(frame, Dtype::bf16, slab);
    if (decoded.ok()) {
      EXPECT_NE(decoded->digest, digest_of(pair.after));
    } else {
      EXPECT_EQ(decoded.error().code, ErrorCode::malformed);
    }
  }
  force_simd(detected_simd());
}

TEST(CodecHostile, OtherFormatsAreRefusedByName) {
  Bytes frame = delta_of(trained_slabs(Dtype::bf16, 1000, 1e-2, 6), Dtype::bf16);
  frame[0] = std::byte{kFrameFormat + 1};
  const auto info = inspect_frame(frame);
  ASSERT_FALSE(info.ok());
  EXPECT_EQ(info.error().code, ErrorCode::unsupported);
  EXPECT_NE(info.error().message.find(std::to_string(kFrameFormat + 1)), std::string::npos);
  Bytes slab(2000);
  EXPECT_EQ(SlabDecoder().decode_in_place(frame, Dtype::bf16, slab).error().code, ErrorCode::unsupported);
}

TEST(CodecHostile, SlabsTooLargeAreRefusedBeforeTheyAreAllocated) {
  Bytes frame = {std::byte{kFrameFormat}, std::byte{3}, std::byte{0xFF}, std::byte{0xFF}, std::byte{0xFF}, std::byte{0x7F},
                 std::byte{0}};
  Bytes out;
  const auto decoded = SlabDecoder().decode_bytes(frame, {}, out);
  ASSERT_FALSE(decoded.ok());
  EXPECT_EQ(decoded.error().code, ErrorCode::limit);
  EXPECT_LE(out.capacity(), std::size_t{limits::kSlabBytes});
}

TEST(CodecHostile, FrameOfAnotherSlabSize) {
  const SlabPair pair = trained_slabs(Dtype::bf16, 1000, 1e-2, 7);
  const Bytes frame = delta_of(pair, Dtype::bf16);
  Bytes slab(pair.before.size() + 2);
  EXPECT_EQ(SlabDecoder().decode_in_place(frame, Dtype::bf16, slab).error().code, ErrorCode::malformed);
}

}  // namespace
}  // namespace p2pw::codec
