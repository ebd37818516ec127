#include "chunker/diff.h"

#include <gtest/gtest.h>

#include "chunker/codec/codec.h"
#include "protocol/limits.h"
#include "tests/support/checkpoint.h"
#include "tests/support/temp_dir.h"

namespace p2pw {
namespace {

// Keeps what comes out, and checks that it comes in the promised order.
class Collect : public FrameSink {
 public:
  void place(Frame& frame) override { placed.push_back(frame.slab); }
  void finish(Frame& frame) override { frame.bytes.push_back(std::byte{0xab}); }
  Status take(Frame&& frame) override {
    frames.push_back(std::move(frame));
    if (frames.size() == fail_after) return fail(ErrorCode::no_space, "sink full");
    return {};
  }
  void progress(std::uint64_t done) override { last_progress = done; }
  std::vector<SlabId> placed;
  std::vector<Frame> frames;
  std::size_t fail_after = SIZE_MAX;
  std::uint64_t last_progress = 0;
};

class Diff : public ::testing::Test {
 protected:
  Diff() : seed_(testing::fresh_seed()), random_(seed_) {
    // Many slabs: dtypes alternate, and a change of dtype ends a slab.
    std::vector<testing::TestTensor> tensors;
    for (int i = 0; i < 60; ++i) {
      tensors.push_back(testing::random_tensor(random_, "t" + std::to_string(i), i % 2 ? Dtype::bf16 : Dtype::f32,
                                               1 + random_() % 3000));
    }
    testing::write_small_checkpoint(old_.path(), random_);
    testing::write_file(old_ / "model-00003.safetensors", testing::safetensors(tensors));
    std::filesystem::copy(old_.path(), new_.path(), std::filesystem::copy_options::recursive);
    testing::change_weights(new_.path(), random_, 0.02);
    scan();
  }
  void scan() {
    auto a = Layout::scan(old_.path()), b = Layout::scan(new_.path());
    ASSERT_TRUE(a.ok()) << a.error().message;
    ASSERT_TRUE(b.ok()) << b.error().message;
    old_layout_.emplace(std::move(*a));
    new_layout_.emplace(std::move(*b));
  }
  CheckpointView old_view() const { return {old_.path(), &*old_layout_}; }
  CheckpointView new_view() const { return {new_.path(), &*new_layout_}; }

  std::uint64_t seed_;
  std::mt19937_64 random_;
  testing::TempDir old_, new_;
  std::optional<Layout> old_layout_, new_layout_;
};

TEST_F(Diff, IsTheSameForAnyNumberOfThreads) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed_);
  std::vector<Frame> first;
  for (unsigned threads : {1u, 2u, 5u, 16u}) {
    Collect sink;
    DiffOptions options;
    options.threads = threads;
    auto result = diff_delta(old_view(), nullptr, new_view(), options, sink);
    ASSERT_TRUE(result.ok()) << result.error().message;
    EXPECT_EQ(result->frames, sink.frames.size());
    std::vector<SlabId> taken;
    for (const Frame& frame : sink.frames) taken.push_back(frame.slab);
    EXPECT_EQ(taken, sink.placed);
    for (std::size_t i = 1; i < taken.size(); ++i) {
      EXPECT_TRUE(taken[i - 1].is_bytes() == taken[i].is_bytes() ? taken[i - 1] < taken[i] : taken[i - 1].is_bytes());
    }
    if (first.empty()) first = sink.frames;
    ASSERT_EQ(first.size(), sink.frames.size());
    for (std::size_t i = 0; i < first.size(); ++i) {
      EXPECT_EQ(first[i].bytes, sink.frames[i].bytes) << i << " with " << threads << " threads";
      EXPECT_EQ(first[i].digest, sink.frames[i].digest);
    }
  }
  ASSERT_GT(first.size(), 20u);
}

TEST_F(Diff, UnchangedSlabsGetNoFrame) {
  Collect sink;
  auto result = diff_delta(old_view(), nullptr, old_view(), {}, sink);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_TRUE(sink.frames.empty());
  EXPECT_EQ(result->changed_elements, 0u);
  EXPECT_EQ(result->digests.tensor_slabs, result->parent_digests.tensor_slabs);
  EXPECT_EQ(result->digests.byte_slabs, result->parent_digests.byte_slabs);
}

TEST_F(Diff, DigestsAreThoseOfTheCheckpoints) {
  Collect sink;
  auto result = diff_delta(old_view(), nullptr, new_view(), {}, sink);
  auto of_old = digest_checkpoint(old_view(), {}), of_new = digest_checkpoint(new_view(), {});
  ASSERT_TRUE(result.ok() && of_old.ok() && of_new.ok());
  EXPECT_EQ(result->digests.table_hash(new_layout_->hash()), of_new->table_hash(new_layout_->hash()));
  EXPECT_EQ(result->parent_digests.table_hash(old_layout_->hash()), of_old->table_hash(old_layout_->hash()));

  Collect anchor_sink;
  auto anchor = diff_anchor(new_view(), {}, anchor_sink);
  ASSERT_TRUE(anchor.ok()) << anchor.error().message;
  EXPECT_EQ(anchor->digests.table_hash(new_layout_->hash()), of_new->table_hash(new_layout_->hash()));
  EXPECT_EQ(anchor_sink.frames.size(), new_layout_->byte_slabs().size() + new_layout_->tensor_slabs().size());
  EXPECT_EQ(anchor->changed_elements, new_layout_->total_elements());
}

TEST_F(Diff, SideFilesThatComeGoAndChangeSize) {
  testing::write_file(new_ / "config.json", R"({"hidden_size": 64, "step": 2})");
  testing::write_file(new_ / "added.json", "{}");
  std::filesystem::remove(new_ / "tokenizer/vocab.txt");
  scan();
  Collect sink;
  auto result = diff_delta(old_view(), nullptr, new_view(), {}, sink);
  ASSERT_TRUE(result.ok()) << result.error().message;
  std::size_t byte_frames = 0;
  for (const Frame& frame : sink.frames) byte_frames += frame.slab.is_bytes();
  EXPECT_EQ(byte_frames, 3u) << "file table, config.json, added.json";
  EXPECT_TRUE(sink.frames[0].slab == SlabId::bytes(0));
}

TEST_F(Diff, KnownDigestsAreUsedAndAWrongOneOfAnUnchangedSlabIsFound) {
  auto known = digest_checkpoint(old_view(), {});
  ASSERT_TRUE(known.ok());
  Collect sink;
  auto result = diff_delta(old_view(), &*known, new_view(), {}, sink);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->parent_digests.tensor_slabs, known->tensor_slabs);

  Collect same;
  known->byte_slabs[1].data[0] ^= 1;  // a header, which is the same in both
  auto damaged = diff_delta(old_view(), &*known, new_view(), {}, same);
  ASSERT_FALSE(damaged.ok());
  EXPECT_EQ(damaged.error().code, ErrorCode::integrity);

  known->byte_slabs[1].data[0] ^= 1;
  known->tensor_slabs.pop_back();
  Collect other;
  EXPECT_EQ(diff_delta(old_view(), &*known, new_view(), {}, other).error().code, ErrorCode::integrity);
}

// Whatever is wrong with the parent, changed slabs and unchanged ones alike: what is made from it would decode nowhere else.
TEST_F(Diff, EveryDigestOfTheParentIsChecked) {
  auto known = digest_checkpoint(old_view(), {});
  ASSERT_TRUE(known.ok());
  Collect all;
  auto result = diff_delta(old_view(), &*known, new_view(), {}, all);
  ASSERT_TRUE(result.ok()) << result.error().message;
  ASSERT_FALSE(all.frames.empty());
  std::size_t changed_tensors = 0;
  for (const Frame& frame : all.frames) changed_tensors += !frame.slab.is_bytes();
  ASSERT_GT(changed_tensors, 0u);
  for (std::size_t i = 0; i < known->tensor_slabs.size(); ++i) {
    SlabDigests wrong = *known;
    wrong.tensor_slabs[i].data[3] ^= 4;
    Collect sink;
    auto refused = diff_delta(old_view(), &wrong, new_view(), {}, sink);
    ASSERT_FALSE(refused.ok()) << "slab " << i;
    EXPECT_EQ(refused.error().code, ErrorCode::integrity);
  }
}

TEST_F(Diff, ADeltaBetweenLayoutsIsRefused) {
  std::filesystem::remove(new_ / "model-00003.safetensors");
  scan();
  Collect sink;
  auto result = diff_delta(old_view(), nullptr, new_view(), {}, sink);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::bad_input);
  auto choice = choose_kind(old_view(), new_view());
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->kind, Kind::anchor);
}

TEST_F(Diff, TheKindFollowsFromASample) {
  auto sparse = choose_kind(old_view(), new_view());
  ASSERT_TRUE(sparse.ok()) << sparse.error().message;
  EXPECT_EQ(sparse->kind, Kind::delta);
  EXPECT_LT(sparse->expected_bytes, new_layout_->total_bytes() / 2);
  testing::change_weights(new_.path(), random_, 1.0);
  scan();
  auto dense = choose_kind(old_view(), new_view());
  ASSERT_TRUE(dense.ok());
  EXPECT_EQ(dense->kind, Kind::anchor);
  EXPECT_GT(dense->expected_bytes, new_layout_->total_bytes() / 2);
}

// Of large slabs only the beginning is looked at, of both sides alike.
TEST_F(Diff, TheKindOfLargeSlabsFollowsFromTheirBeginnings) {
  testing::TempDir before, after;
  testing::write_file(before / "model.safetensors",
                      testing::safetensors({testing::random_tensor(random_, "w", Dtype::bf16, 5u << 20)}));
  std::filesystem::copy(before.path(), after.path(), std::filesystem::copy_options::recursive);
  testing::change_weights(after.path(), random_, 0.02);
  auto old_layout = Layout::scan(before.path()), new_layout = Layout::scan(after.path());
  ASSERT_TRUE(old_layout.ok() && new_layout.ok());
  auto choice = choose_kind({before.path(), &*old_layout}, {after.path(), &*new_layout});
  ASSERT_TRUE(choice.ok()) << choice.error().message;
  EXPECT_EQ(choice->kind, Kind::delta);
  EXPECT_LT(choice->expected_bytes, new_layout->total_bytes() / 5);
}

TEST_F(Diff, StopsWhenAskedAndWhenTheSinkRefuses) {
  Collect sink;
  DiffOptions options;
  options.stop = [] { return true; };
  EXPECT_EQ(diff_anchor(new_view(), options, sink).error().code, ErrorCode::interrupted);
  Collect full;
  full.fail_after = 3;
  EXPECT_EQ(diff_anchor(new_view(), {}, full).error().code, ErrorCode::no_space);
  EXPECT_EQ(full.frames.size(), 3u);
}

TEST_F(Diff, AMissingFileIsAnErrorOfItsSlab) {
  std::filesystem::remove(new_ / "model-00003.safetensors");
  Collect sink;
  auto result = diff_anchor(new_view(), {}, sink);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::not_found);
}

TEST_F(Diff, ProgressEndsAtTheBytesOfAllSlabs) {
  Collect sink;
  ASSERT_TRUE(diff_anchor(new_view(), {}, sink).ok());
  EXPECT_EQ(sink.last_progress, new_layout_->total_bytes() + new_layout_->file_table().size());
}

}  // namespace
}  // namespace p2pw
