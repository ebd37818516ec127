#include "chunker/layout.h"

#include <gtest/gtest.h>

#include "chunker/layout_builder.h"
#include "protocol/limits.h"
#include "tests/support/checkpoint.h"
#include "tests/support/temp_dir.h"

namespace p2pw {
namespace {

using testing::TempDir;

std::string entry(const std::string& name, const std::string& dtype, std::uint64_t elements, std::uint64_t begin,
                  std::uint64_t end) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + std::to_string(elements) +
         "],\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(end) + "]}";
}

Bytes header_of(const std::string& json) {
  std::string header = testing::raw_safetensors(json, "");
  return Bytes(as_bytes(header).begin(), as_bytes(header).end());
}

// The layout of one tensor file whose data is never there.
Result<Layout> layout_of(const std::string& json, std::uint64_t data_bytes) {
  Bytes header = header_of(json);
  auto table = FileTable::make({{"m.safetensors", header.size() + data_bytes, header.size(), {}}}, ErrorCode::bad_input);
  if (!table) return std::move(table).error();
  return Layout::from_parts(table->encoded(), {header});
}

TEST(Layout, AdjacentTensorsOfOneDtypeShareSlabs) {
  auto layout = layout_of("{" + entry("a", "BF16", 10, 0, 20) + "," + entry("b", "BF16", 5, 20, 30) + "," +
                              entry("none", "F32", 0, 30, 30) + "," + entry("c", "BF16", 1, 30, 32) + "," +
                              entry("d", "F16", 1, 32, 34) + "," + entry("e", "BF16", 2, 34, 38) + "}",
                          38);
  ASSERT_TRUE(layout.ok()) << layout.error().message;
  const auto& slabs = layout->tensor_slabs();
  ASSERT_EQ(slabs.size(), 3u);  // a tensor without bytes ends nothing
  EXPECT_EQ(slabs[0].length, 32u);
  EXPECT_EQ(slabs[1].dtype, Dtype::f16);
  EXPECT_EQ(slabs[2].length, 4u);
  EXPECT_EQ(slabs[2].id, SlabId::tensor(2));
  EXPECT_EQ(slabs[2].offset, slabs[1].offset + 2);
  EXPECT_EQ(layout->total_elements(), 19u);
}

TEST(Layout, LongRunsAreCutAtTheSlabSize) {
  constexpr std::uint64_t kElements = limits::kSlabBytes + 3;  // of two bytes: two slabs and a bit
  auto layout = layout_of("{" + entry("a", "BF16", kElements, 0, 2 * kElements) + "}", 2 * kElements);
  ASSERT_TRUE(layout.ok()) << layout.error().message;
  const auto& slabs = layout->tensor_slabs();
  ASSERT_EQ(slabs.size(), 3u);
  EXPECT_EQ(slabs[0].length, limits::kSlabBytes);
  EXPECT_EQ(slabs[2].length, 6u);
  EXPECT_EQ(layout->find(SlabId::tensor(2)), &slabs[2]);
  EXPECT_EQ(layout->find(SlabId::tensor(3)), nullptr);
  EXPECT_EQ(layout->find(SlabId::bytes(2)), nullptr);
  EXPECT_EQ(layout->find(SlabId::bytes(1)), &layout->byte_slabs()[1]);
}

TEST(Layout, TheSameDirectoryGivesTheSameHashAndParts) {
  TempDir a, b;
  std::mt19937_64 same(7), again(7);
  testing::write_small_checkpoint(a.path(), same);
  testing::write_small_checkpoint(b.path(), again);
  auto first = Layout::scan(a.path()), second = Layout::scan(b.path());
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->hash(), second->hash());
  EXPECT_EQ(first->file_table(), second->file_table());

  std::vector<Bytes> headers;
  for (const FileEntry& file : first->files()) {
    if (!file.is_tensor_file()) continue;
    std::string bytes = testing::read_text(a / file.path);
    headers.emplace_back(as_bytes(bytes).begin(), as_bytes(bytes).begin() + static_cast<std::ptrdiff_t>(file.header_bytes));
  }
  auto rebuilt = Layout::from_parts(first->file_table(), headers);
  ASSERT_TRUE(rebuilt.ok()) << rebuilt.error().message;
  EXPECT_EQ(rebuilt->hash(), first->hash());
  EXPECT_TRUE(rebuilt->same_tensor_slabs(*first));
  EXPECT_EQ(rebuilt->total_elements(), first->total_elements());
  EXPECT_EQ(rebuilt->total_bytes(), first->total_bytes());
}

TEST(Layout, ADeltaNeedsTheSameTensorSlabs) {
  TempDir dir;
  std::mt19937_64 random(1);
  testing::write_small_checkpoint(dir.path(), random);
  auto before = Layout::scan(dir.path());
  ASSERT_TRUE(before.ok());
  testing::write_file(dir / "a_new_side_file.json", "{}");
  auto more_files = Layout::scan(dir.path());
  ASSERT_TRUE(more_files.ok());
  EXPECT_TRUE(more_files->same_tensor_slabs(*before));
  EXPECT_NE(more_files->hash(), before->hash());

  testing::write_file(dir / "model-00001-of-00002.safetensors",
                      testing::safetensors({testing::random_tensor(random, "embed", Dtype::f16, 3000),
                                            testing::random_tensor(random, "norm", Dtype::f32, 17)}));
  auto other_dtype = Layout::scan(dir.path());
  ASSERT_TRUE(other_dtype.ok()) << other_dtype.error().message;
  EXPECT_FALSE(other_dtype->same_tensor_slabs(*before));
  std::filesystem::rename(dir / "model-00002-of-00002.safetensors", dir / "renamed.safetensors");
  std::filesystem::remove(dir / "model.safetensors.index.json");
  auto renamed = Layout::scan(dir.path());
  ASSERT_TRUE(renamed.ok());
  EXPECT_FALSE(renamed->same_tensor_slabs(*other_dtype));
}

TEST(Layout, HostilePartsAreRefused) {
  const std::string json = "{" + entry("a", "U8", 4, 0, 4) + "}";
  Bytes header = header_of(json);
  auto table = FileTable::make({{"m.safetensors", header.size() + 4, header.size(), {}}}, ErrorCode::bad_input);
  ASSERT_TRUE(table.ok());
  auto code_of = [&](std::vector<Bytes> headers) {
    auto layout = Layout::from_parts(table->encoded(), std::move(headers));
    return layout.ok() ? ErrorCode::failed : layout.error().code;
  };
  EXPECT_TRUE(Layout::from_parts(table->encoded(), {header}).ok());
  EXPECT_EQ(code_of({}), ErrorCode::malformed);
  EXPECT_EQ(code_of({header, header}), ErrorCode::malformed);
  Bytes longer = header;
  longer.push_back(std::byte{' '});
  EXPECT_EQ(code_of({longer}), ErrorCode::malformed);
  Bytes other = header;
  other[9] = std::byte{'{'};
  EXPECT_EQ(code_of({other}), ErrorCode::malformed);
}

// A header may claim any size; the slab table must not follow it into any memory.
TEST(Layout, RefusesMoreSlabsThanTheLimit) {
  constexpr std::uint64_t kBytes = (limits::kMaxSlabs + 1ull) * limits::kSlabBytes;
  auto layout = layout_of("{" + entry("a", "U8", kBytes, 0, kBytes) + "}", kBytes);
  ASSERT_FALSE(layout.ok());
}

// The layout hash stands in signed records: these numbers never change. (Python: sha256(table + header) and so on.)
TEST(Layout, TheFileTableAndHashesArePinned) {
  const std::string json = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";
  Bytes header = header_of(json);
  auto table = FileTable::make({{"m.safetensors", header.size() + 4, header.size(), {}}, {"config.json", 7, 0, {}}},
                               ErrorCode::bad_input);
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(to_hex(table->encoded()), "01020b636f6e6669672e6a736f6e07000d6d2e7361666574656e736f7273413d");
  auto layout = Layout::from_parts(table->encoded(), {header});
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->hash().hex(), "3f8924516812f7a3cb7e0ee997fb658ac4e43678d402bb880b809051c9777d32");
  std::vector<Digest> digests(3);
  for (std::size_t i = 0; i < 48; ++i) digests[i / 16].data[i % 16] = static_cast<std::uint8_t>(i);
  EXPECT_EQ(slab_table_hash(layout->hash(), std::span(digests).first(2), std::span(digests).subspan(2)).hex(),
            "c14fa21e817e506fea822823d21adfd41073f142095db2042157bf1ba80e3ec5");
}

TEST(Layout, TheTableHashCoversLayoutAndEveryDigest) {
  LayoutHash layout;
  std::vector<Digest> bytes(2), tensors(3);
  Sha256 zero = slab_table_hash(layout, bytes, tensors);
  tensors[2].data[15] = 1;
  Sha256 tensor_changed = slab_table_hash(layout, bytes, tensors);
  EXPECT_NE(zero, tensor_changed);
  tensors[2].data[15] = 0;
  layout.data[0] = 1;
  EXPECT_NE(slab_table_hash(layout, bytes, tensors), zero);
}

}  // namespace
}  // namespace p2pw
