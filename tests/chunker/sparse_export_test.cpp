#include "chunker/sparse_export.h"

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "chunker/make_delta.h"
#include "protocol/limits.h"
#include "tests/support/checkpoint.h"
#include "tests/support/temp_dir.h"

namespace p2pw {
namespace {

class SparseExportTest : public ::testing::Test {
 protected:
  SparseExportTest() : random_(11) {}
  void write(const std::string& side, const std::vector<testing::TestTensor>& tensors) {
    testing::write_file(dir_ / side / "m.safetensors", testing::safetensors(tensors));
  }
  Result<SparseSummary> run() {
    P2PW_TRY(DeltaSummary made, make_delta_file(dir_ / "old", dir_ / "new", dir_ / "f", {}));
    (void)made;
    P2PW_TRY(DeltaFile delta, DeltaFile::open(dir_ / "f"));
    return export_sparse(dir_ / "old", delta, dir_ / "sparse.safetensors", {});
  }
  // Of one tensor in a file that was written.
  std::map<std::string, std::string> metadata() {
    const std::string file = testing::read_text(dir_ / "sparse.safetensors");
    std::uint64_t length = 0;
    std::memcpy(&length, file.data(), 8);
    return nlohmann::json::parse(file.substr(8, length))["__metadata__"].get<std::map<std::string, std::string>>();
  }
  testing::TempDir dir_;
  std::mt19937_64 random_;
};

// Three versions: the deltas of two steps, and the two ends themselves, give the same file but for the labels.
TEST_F(SparseExportTest, SeveralVersionsFoldIntoOne) {
  std::vector<testing::TestTensor> tensors;
  for (const char* name : {"a", "b", "c"}) tensors.push_back(testing::random_tensor(random_, name, Dtype::bf16, 3000));
  const auto first = tensors;
  write("old", tensors);
  tensors[0].data[10] ^= std::byte{1};
  tensors[1].data[20] ^= std::byte{1};
  write("middle", tensors);
  tensors[0].data[10] ^= std::byte{1};  // back: no change over both
  tensors[1].data[40] ^= std::byte{1};
  write("new", tensors);
  std::vector<DeltaFile> deltas;
  for (auto [from, to] : {std::pair("old", "middle"), std::pair("middle", "new")}) {
    ASSERT_TRUE(make_delta_file(dir_ / from, dir_ / to, dir_ / (std::string(to) + ".delta"), {}).ok());
    auto opened = DeltaFile::open(dir_ / (std::string(to) + ".delta"));
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    deltas.push_back(std::move(*opened));
  }
  auto made = export_sparse(dir_ / "old", deltas, dir_ / "sparse.safetensors", {});
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->tensors, 1u);
  EXPECT_EQ(made->elements, 2u);
  auto folded = metadata();
  EXPECT_EQ(folded["format"], "p2pw-sparse-1");
  EXPECT_EQ(folded["parent_table_hash"], deltas[0].info().parent_table.hex());
  EXPECT_EQ(folded["table_hash"], deltas[1].info().table.hex());
  auto sha = nlohmann::json::parse(folded["sha256"]), before = nlohmann::json::parse(folded["sha256_before"]);
  EXPECT_EQ(sha, (nlohmann::json{{"b", sha256(tensors[1].data).hex()}}));
  EXPECT_EQ(before, (nlohmann::json{{"b", sha256(first[1].data).hex()}}));

  SparseEnds ends{dir_ / "old", dir_ / "new", deltas[0].info().parent_table, deltas[1].info().table, 3, 5};
  auto direct = export_sparse(ends, dir_ / "sparse.safetensors", {});
  ASSERT_TRUE(direct.ok()) << direct.error().message;
  EXPECT_EQ(direct->elements, made->elements);
  auto labelled = metadata();
  EXPECT_EQ(labelled["parent_version"], "3");
  EXPECT_EQ(labelled["version"], "5");
  labelled.erase("parent_version");
  labelled.erase("version");
  EXPECT_EQ(labelled, folded);

  std::swap(deltas[0], deltas[1]);
  EXPECT_EQ(export_sparse(dir_ / "middle", deltas, dir_ / "no", {}).error().code, ErrorCode::wrong_parent);
  EXPECT_FALSE(std::filesystem::exists(dir_ / "no"));
}

TEST_F(SparseExportTest, OtherTensorsHaveNoSparseForm) {
  write("old", {testing::random_tensor(random_, "a", Dtype::bf16, 100)});
  write("new", {testing::random_tensor(random_, "a", Dtype::bf16, 101)});
  EXPECT_EQ(export_sparse(SparseEnds{dir_ / "old", dir_ / "new", {}, {}, 0, 0}, dir_ / "no", {}).error().code, ErrorCode::unsupported);
}

// Writing the values at the indices over the old tensors gives the new ones: for every dtype, over slab ends too.
TEST_F(SparseExportTest, ScatteringTheValuesGivesTheNewTensors) {
  std::vector<testing::TestTensor> before, after;
  for (Dtype dtype : testing::kAllDtypes) {
    if (bits_of(dtype) == 6) continue;
    before.push_back(testing::random_tensor(random_, std::string(name_of(dtype)), dtype, 1 + random_() % 3000));
  }
  before.push_back(testing::random_tensor(random_, "long", Dtype::bf16, limits::kSlabBytes / 2 + 100));
  before.push_back(testing::random_tensor(random_, "unchanged", Dtype::bf16, 100));
  after = before;
  for (testing::TestTensor& t : after) {
    if (t.name == "unchanged") continue;
    for (int k = 0; k < 20; ++k) t.data[random_() % t.data.size()] ^= std::byte{3};
    t.data.back() ^= std::byte{1};
  }
  write("old", before);
  write("new", after);
  auto made = run();
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->tensors, after.size() - 1);

  const std::string file = testing::read_text(dir_ / "sparse.safetensors");
  EXPECT_EQ(file.size(), made->bytes);
  auto header = safetensors_header_bytes(as_bytes(file), file.size(), "s", ErrorCode::bad_input);
  ASSERT_TRUE(header.ok());
  auto tensors = parse_safetensors_header(as_bytes(file).first(*header), file.size(), "s", ErrorCode::bad_input);
  ASSERT_TRUE(tensors.ok()) << tensors.error().message;
  std::map<std::string, TensorEntry> by_name;
  for (const TensorEntry& t : *tensors) by_name[t.name] = t;
  EXPECT_FALSE(by_name.contains("unchanged.indices"));
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i].name == "unchanged") continue;
    SCOPED_TRACE(before[i].name);
    const TensorEntry &indices = by_name[before[i].name + ".indices"], &values = by_name[before[i].name + ".values"];
    EXPECT_EQ(indices.dtype, Dtype::i64);
    EXPECT_EQ(values.dtype, before[i].dtype);
    EXPECT_EQ(indices.shape, values.shape);
    Bytes scattered = before[i].data;
    const unsigned width = element_bytes(before[i].dtype), per_byte = before[i].dtype == Dtype::f4 ? 2 : 1;
    std::int64_t last = -1;
    for (std::uint64_t k = 0; k < indices.shape[0]; ++k) {
      std::int64_t index = 0;
      std::memcpy(&index, file.data() + indices.begin + 8 * k, 8);
      EXPECT_GT(index, last);
      last = index;
      if (k % per_byte != 0) continue;
      std::memcpy(scattered.data() + static_cast<std::uint64_t>(index) / per_byte * width,
                  file.data() + values.begin + k / per_byte * width, width);
    }
    EXPECT_EQ(scattered, after[i].data);
  }
}

TEST_F(SparseExportTest, RefusesWhatHasNoSparseForm) {
  auto tensor = testing::random_tensor(random_, "six", Dtype::f6_e2m3, 400);
  write("old", {tensor});
  tensor.data[5] ^= std::byte{1};
  write("new", {tensor});
  auto made = run();
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, ErrorCode::unsupported);
  EXPECT_NE(made.error().message.find("six"), std::string::npos);
  write("new", {testing::random_tensor(random_, "other", Dtype::u8, 400)});
  EXPECT_EQ(run().error().code, ErrorCode::usage) << "an anchor";
  EXPECT_FALSE(std::filesystem::exists(dir_ / "sparse.safetensors"));
}

TEST_F(SparseExportTest, RefusesAnOldThatIsNotTheParent) {
  auto a = testing::random_tensor(random_, "a", Dtype::bf16, 400), b = testing::random_tensor(random_, "b", Dtype::f32, 9);
  write("old", {a, b});
  a.data[0] ^= std::byte{1};
  write("new", {a, b});
  ASSERT_TRUE(run().ok());
  auto delta = DeltaFile::open(dir_ / "f");
  ASSERT_TRUE(delta.ok());
  a.data[0] ^= std::byte{1};
  b.data[0] ^= std::byte{1};  // in a slab that has no frame
  write("old", {a, b});
  auto made = export_sparse(dir_ / "old", *delta, dir_ / "again.safetensors", {});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, ErrorCode::wrong_parent);
  EXPECT_NE(made.error().message.find("m.safetensors differs"), std::string::npos) << made.error().message;
}

}  // namespace
}  // namespace p2pw
