#include "chunker/bundle_sink.h"

#include <gtest/gtest.h>

#include "chunker/codec/codec.h"
#include "protocol/limits.h"
#include "tests/support/checkpoint.h"
#include "tests/support/temp_dir.h"

namespace p2pw {
namespace {

RunContext context() {
  RunContext run;
  run.channel = Channel::parse("test").value();
  run.version = Version(2);
  run.parent = Version(1);
  run.kind = Kind::anchor;
  return run;
}

// The whole publishing side: what receivers open and decode is the checkpoint.
TEST(BundleSink, SealedBundlesLeadToTheCheckpointOnAnyNumberOfThreads) {
  const std::uint64_t seed = testing::fresh_seed();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  testing::TempDir dir;
  std::vector<testing::TestTensor> tensors;
  for (int i = 0; i < 40; ++i) {
    tensors.push_back(testing::random_tensor(random, "t" + std::to_string(i), i % 2 ? Dtype::bf16 : Dtype::f32, 4000));
  }
  testing::write_file(dir / "m.safetensors", testing::safetensors(tensors));
  auto layout = Layout::scan(dir.path());
  ASSERT_TRUE(layout.ok());
  FleetSecret secret = FleetSecret::generate();
  FrameSealer sealer(FrameKey::derive(secret, context()), context());

  std::vector<std::vector<ClosedBundle>> runs;
  for (unsigned threads : {1u, 4u}) {
    std::vector<ClosedBundle>& bundles = runs.emplace_back();
    BundleSink sink(sealer, BundleSizes(limits::kMinChunkBytes, layout->total_bytes()), [&](ClosedBundle&& bundle) -> Status {
      bundles.push_back(std::move(bundle));
      return {};
    });
    DiffOptions options;
    options.threads = threads;
    auto result = diff_anchor({dir.path(), &*layout}, options, sink);
    ASSERT_TRUE(result.ok()) << result.error().message;
    ASSERT_TRUE(sink.finish_bundles().ok());
    EXPECT_EQ(sink.bundles(), bundles.size());
    ASSERT_GT(bundles.size(), 3u);

    codec::SlabDecoder decoder;
    std::size_t frames = 0;
    for (const ClosedBundle& bundle : bundles) {
      for (std::uint32_t f = 0; f < bundle.meta.frames.size(); ++f, ++frames) {
        const FrameEntry& entry = bundle.meta.frames[f];
        Bytes plain, slab(layout->find(entry.slab)->length);
        ASSERT_TRUE(sealer.open(bundle.index, FrameIndex(f), entry.slab,
                                ByteView(bundle.bytes).subspan(entry.offset, entry.length), plain).ok());
        auto decoded = entry.slab.is_bytes()
                           ? decoder.decode_bytes(plain, {}, slab)
                           : decoder.decode_in_place(plain, layout->find(entry.slab)->dtype, slab);
        ASSERT_TRUE(decoded.ok()) << decoded.error().message;
        EXPECT_EQ(decoded->digest, entry.digest);
      }
    }
    EXPECT_EQ(frames, result->frames);
  }
  ASSERT_EQ(runs[0].size(), runs[1].size());
  for (std::size_t i = 0; i < runs[0].size(); ++i) EXPECT_EQ(runs[0][i].bytes, runs[1][i].bytes);
}

}  // namespace
}  // namespace p2pw
