#include <gtest/gtest.h>

#include "protocol/limits.h"
#include "protocol/record.h"
#include "protocol/records.pb.h"
#include "tests/protocol/make_records.h"

namespace p2pw {
namespace {

using namespace p2pw::testing;

struct Made {
  BundleMeta meta;
  BundleRecord record;
  Bytes bytes;
};

// Three frames, byte slab first, in a bundle of two chunks.
Made make() {
  Made made;
  made.meta.frames = {{SlabId::bytes(0), 0, 100, blob<Digest>(1)},
                      {SlabId::tensor(0), 100, 20'000, blob<Digest>(2)},
                      {SlabId::tensor(7), 20'100, 50, blob<Digest>(3)}};
  made.record = bundle_of(blob<RunId>(1), 3, 0, 20'150);
  Bytes data(20'150, std::byte{5});
  for (std::size_t at = 0; at < data.size(); at += 16384) {
    made.meta.chunk_roots.push_back(
        chunk_root(ByteView(data).subspan(at, std::min<std::size_t>(16384, data.size() - at)), 16384));
  }
  made.record.pieces_root = pieces_root(made.meta.chunk_roots, 16384);
  made.bytes = made.meta.encode();
  return made;
}

// As the publisher would have bound these bytes.
void bind(Made& made) {
  made.record.meta_bytes = static_cast<std::uint32_t>(made.bytes.size());
  made.record.meta_hash = sha256(made.bytes);
}

TEST(BundleMeta, RoundTrip) {
  Made made = make();
  bind(made);
  const auto meta = BundleMeta::decode(made.bytes, made.record);
  ASSERT_TRUE(meta.ok()) << meta.error().message;
  EXPECT_EQ(meta->chunk_roots, made.meta.chunk_roots);
  ASSERT_EQ(meta->frames.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(meta->frames[i].slab, made.meta.frames[i].slab) << i;
    EXPECT_EQ(meta->frames[i].offset, made.meta.frames[i].offset) << i;
    EXPECT_EQ(meta->frames[i].length, made.meta.frames[i].length) << i;
    EXPECT_EQ(meta->frames[i].digest, made.meta.frames[i].digest) << i;
  }
}

TEST(BundleMeta, EveryFlippedByteIsRefusedByTheHash) {
  Made made = make();
  bind(made);
  for (std::size_t i = 0; i < made.bytes.size(); ++i) {
    made.bytes[i] ^= std::byte{1};
    EXPECT_EQ(BundleMeta::decode(made.bytes, made.record).error().code, ErrorCode::integrity) << i;
    made.bytes[i] ^= std::byte{1};
  }
  made.bytes.pop_back();
  EXPECT_EQ(BundleMeta::decode(made.bytes, made.record).error().code, ErrorCode::integrity);
}

struct Bad {
  const char* why;
  ErrorCode code;
  void (*spoil)(wire::BundleMeta&);
};

// A publisher with a defect, or with a stolen key: the hash is right and the contents are not.
TEST(BundleMeta, ContentsAreCheckedEvenWhenTheHashIsRight) {
  const Bad cases[] = {
      {"format", ErrorCode::unsupported, [](wire::BundleMeta& m) { m.set_format(2); }},
      {"a root short", ErrorCode::malformed,
       [](wire::BundleMeta& m) { m.mutable_chunk_roots()->resize(32); }},
      {"a root too many", ErrorCode::malformed,
       [](wire::BundleMeta& m) { m.mutable_chunk_roots()->append(32, 'x'); }},
      {"another root", ErrorCode::integrity,
       [](wire::BundleMeta& m) { m.mutable_chunk_roots()->at(3) ^= 1; }},
      {"a length short", ErrorCode::malformed,
       [](wire::BundleMeta& m) { m.mutable_frame_lengths()->RemoveLast(); }},
      {"a step short", ErrorCode::malformed,
       [](wire::BundleMeta& m) { m.mutable_slab_steps()->RemoveLast(); }},
      {"a digest short", ErrorCode::malformed, [](wire::BundleMeta& m) { m.mutable_digests()->resize(40); }},
      {"frames past the end", ErrorCode::malformed, [](wire::BundleMeta& m) { m.set_frame_lengths(2, 51); }},
      {"frames before the end", ErrorCode::malformed,
       [](wire::BundleMeta& m) { m.set_frame_lengths(2, 49); }},
      {"a frame without contents", ErrorCode::malformed,
       [](wire::BundleMeta& m) { m.set_frame_lengths(0, 16), m.set_frame_lengths(1, 20'084); }},
      {"a frame larger than any slab", ErrorCode::malformed,
       [](wire::BundleMeta& m) {
         m.set_frame_lengths(1, limits::kSlabBytes + limits::kMaxFrameOverhead + 1);
       }},
      {"slab below zero", ErrorCode::malformed, [](wire::BundleMeta& m) { m.set_slab_steps(0, -1); }},
      {"slab past 32 bits", ErrorCode::malformed,
       [](wire::BundleMeta& m) { m.set_slab_steps(0, 1ll << 32); }},
      {"step that overflows", ErrorCode::malformed,
       [](wire::BundleMeta& m) { m.set_slab_steps(1, std::numeric_limits<std::int64_t>::max()); }},
      {"slab twice", ErrorCode::malformed, [](wire::BundleMeta& m) { m.set_slab_steps(2, 0); }},
  };
  for (const Bad& c : cases) {
    Made made = make();
    wire::BundleMeta plain;
    ASSERT_TRUE(plain.ParseFromString(std::string(as_text(made.bytes))));
    c.spoil(plain);
    const std::string text = plain.SerializeAsString();
    made.bytes.assign(as_bytes(text).begin(), as_bytes(text).end());
    bind(made);
    const auto meta = BundleMeta::decode(made.bytes, made.record);
    ASSERT_FALSE(meta.ok()) << c.why;
    EXPECT_EQ(meta.error().code, c.code) << c.why << ": " << meta.error().message;
  }
}

TEST(BundleMeta, GarbageWithTheRightHashIsMalformed) {
  Made made = make();
  made.bytes.assign(100, std::byte{0xff});
  bind(made);
  EXPECT_EQ(BundleMeta::decode(made.bytes, made.record).error().code, ErrorCode::malformed);
}

}  // namespace
}  // namespace p2pw
