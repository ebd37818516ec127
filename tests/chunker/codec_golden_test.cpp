// The current format, pinned: frames of known slabs are byte for byte those in tests/data/codec. Another format is
// another kFrameFormat and, in the same commit, new files:
//   P2PW_REGENERATE=1 build/bin/chunker_tests --gtest_filter='CodecGolden.*'
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/chunker/codec_data.h"

namespace p2pw::codec {
namespace {

struct Golden {
  const char* name;
  Dtype dtype;
  SlabPair pair;
  bool anchor = false;
};

std::vector<Golden> goldens() {
  std::vector<Golden> all;
  all.push_back({"bf16-sparse", Dtype::bf16, trained_slabs(Dtype::bf16, 60'000, 1e-3, 1)});
  all.push_back({"bf16-few", Dtype::bf16, trained_slabs(Dtype::bf16, 3000, 1e-4, 2)});
  all.push_back({"bf16-dense", Dtype::bf16, trained_slabs(Dtype::bf16, 5000, 0.1, 3)});
  all.push_back({"f16-sparse", Dtype::f16, trained_slabs(Dtype::f16, 20'000, 1e-4, 4)});
  all.push_back({"f32-dense", Dtype::f32, trained_slabs(Dtype::f32, 3000, 1e-5, 5)});
  all.push_back({"f64-dense", Dtype::f64, trained_slabs(Dtype::f64, 500, 1e-9, 6)});
  all.push_back({"f8-e4m3-sparse", Dtype::f8_e4m3, trained_slabs(Dtype::f8_e4m3, 20'000, 1e-2, 7)});
  all.push_back({"f8-e5m2-sparse", Dtype::f8_e5m2, trained_slabs(Dtype::f8_e5m2, 20'000, 1e-2, 8)});
  all.push_back({"i32-sparse", Dtype::i32, random_slabs(Dtype::i32, 4000, 30, 9)});
  all.push_back({"f4-sparse", Dtype::f4, random_slabs(Dtype::f4, 10'000, 50, 10)});
  all.push_back({"u8-raw", Dtype::u8, random_slabs(Dtype::u8, 300, 1000, 11)});
  all.push_back({"bf16-anchor", Dtype::bf16, trained_slabs(Dtype::bf16, 4000, 0, 12), true});
  all.push_back({"f32-anchor", Dtype::f32, trained_slabs(Dtype::f32, 2000, 0, 13), true});
  all.push_back({"f8-e4m3-anchor", Dtype::f8_e4m3, trained_slabs(Dtype::f8_e4m3, 4000, 0, 14), true});
  return all;
}

Bytes encode(const Golden& golden) {
  Bytes frame;
  if (golden.anchor) {
    SlabEncoder().encode_anchor(golden.pair.after, golden.dtype, frame);
  } else {
    SlabEncoder().encode_delta(golden.pair.before, golden.pair.after, golden.dtype, frame);
  }
  return frame;
}

std::filesystem::path path_of(const Golden& golden) {
  return std::filesystem::path(P2PW_TEST_DATA) / "codec" / (std::string(golden.name) + ".frame");
}

TEST(CodecGolden, FramesAreThoseOfTheFormat) {
  const bool regenerate = std::getenv("P2PW_REGENERATE") != nullptr;
  for (const Golden& golden : goldens()) {
    SCOPED_TRACE(golden.name);
    const Bytes frame = encode(golden);
    if (regenerate) {
      std::ofstream(path_of(golden), std::ios::binary)
          .write(reinterpret_cast<const char*>(frame.data()), static_cast<std::streamsize>(frame.size()));
      continue;
    }
    std::ifstream in(path_of(golden), std::ios::binary);
    ASSERT_TRUE(in.good()) << path_of(golden);
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    EXPECT_TRUE(as_text(frame) == text) << "the frame is no longer the one in " << path_of(golden);
    ASSERT_FALSE(text.empty());
    EXPECT_EQ(text[0], static_cast<char>(kFrameFormat));
    Bytes slab = golden.anchor ? Bytes(golden.pair.after.size()) : golden.pair.before;
    const auto decoded = SlabDecoder().decode_in_place(as_bytes(text), golden.dtype, slab);
    ASSERT_TRUE(decoded.ok()) << decoded.error().message;
    EXPECT_TRUE(slab == golden.pair.after);
  }
  ASSERT_FALSE(regenerate) << "the files are written anew; run again without P2PW_REGENERATE";
}

}  // namespace
}  // namespace p2pw::codec
