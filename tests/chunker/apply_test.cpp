#include "chunker/apply.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "chunker/make_delta.h"
#include "protocol/limits.h"
#include "tests/support/checkpoint.h"
#include "tests/support/temp_dir.h"

namespace p2pw {
namespace {

namespace fs = std::filesystem;

class ApplyTest : public ::testing::Test {
 protected:
  ApplyTest() : seed_(testing::fresh_seed()), random_(seed_) {}
  ~ApplyTest() override {
    if (HasFailure()) std::printf("seed %llu\n", static_cast<unsigned long long>(seed_));
  }

  // apply(diff(old, new)) == new, byte for byte, for a delta and for an anchor.
  void expect_round_trip(std::optional<Kind> kind = std::nullopt) {
    MakeDeltaOptions options;
    options.kind = kind;
    options.threads = static_cast<unsigned>(1 + random_() % 3);
    auto made = make_delta_file(dir_ / "old", dir_ / "new", dir_ / "f", options);
    ASSERT_TRUE(made.ok()) << made.error().message;
    auto delta = DeltaFile::open(dir_ / "f");
    ASSERT_TRUE(delta.ok()) << delta.error().message;
    fs::remove_all(dir_ / "out");
    auto applied = apply_delta(dir_ / "old", *delta, dir_ / "out", {});
    ASSERT_TRUE(applied.ok()) << applied.error().message;
    ASSERT_EQ(testing::tree(dir_ / "out"), testing::tree(dir_ / "new"));
    auto layout = Layout::scan(dir_ / "out");
    ASSERT_TRUE(layout.ok());
    auto digests = digest_checkpoint({dir_ / "out", &*layout}, {});
    ASSERT_TRUE(digests.ok());
    EXPECT_TRUE(check_leads_to(*delta, dir_ / "out", *layout, *digests).ok());
  }

  void write_pair() {
    testing::write_small_checkpoint(dir_ / "old", random_);
    fs::copy(dir_ / "old", dir_ / "new", fs::copy_options::recursive);
    testing::change_weights(dir_ / "new", random_, 0.02);
  }
  DeltaFile make() {
    auto made = make_delta_file(dir_ / "old", dir_ / "new", dir_ / "f", {});
    EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
    auto delta = DeltaFile::open(dir_ / "f");
    EXPECT_TRUE(delta.ok());
    return std::move(delta).value();
  }
  std::set<std::string> names() {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(dir_.path())) found.insert(entry.path().filename().string());
    return found;
  }

  std::uint64_t seed_;
  std::mt19937_64 random_;
  testing::TempDir dir_;
};

TEST_F(ApplyTest, AnyBytesOfEveryDtypeComeBack) {
  for (double share : {0.001, 0.3, 1.0}) {
    std::vector<testing::TestTensor> before, after;
    for (Dtype dtype : testing::kAllDtypes) {
      testing::TestTensor tensor = testing::random_tensor(random_, std::string(name_of(dtype)), dtype, 1 + random_() % 5000);
      before.push_back(tensor);
      for (std::byte& b : tensor.data) {
        if (std::uniform_real_distribution<>(0, 1)(random_) < share) b = static_cast<std::byte>(random_());
      }
      after.push_back(std::move(tensor));
    }
    testing::write_file(dir_ / "old/m.safetensors", testing::safetensors(before, random_() % 2));
    bool padded = testing::read_text(dir_ / "old/m.safetensors").size() == testing::safetensors(before, true).size();
    testing::write_file(dir_ / "new/m.safetensors", testing::safetensors(after, padded));
    expect_round_trip();
    expect_round_trip(Kind::anchor);
  }
}

// Compared as integers: a zero that changes its sign and a NaN that changes its payload are changes, an equal NaN is none.
TEST_F(ApplyTest, SignsOfZeroAndPayloadsOfNanTravel) {
  auto tensor_of = [](std::vector<std::uint32_t> bits) {
    testing::TestTensor t{"t", Dtype::f32, {bits.size()}, Bytes(bits.size() * 4)};
    std::memcpy(t.data.data(), bits.data(), t.data.size());
    return t;
  };
  testing::write_file(dir_ / "old/m.safetensors",
                      testing::safetensors({tensor_of({0x00000000, 0x7fc00001, 0x7f800001, 0xffc00000, 0x7f800000})}));
  testing::write_file(dir_ / "new/m.safetensors",
                      testing::safetensors({tensor_of({0x80000000, 0x7fc00002, 0x7f800001, 0xffc00000, 0xff800000})}));
  expect_round_trip();
  EXPECT_EQ(make().info().changed_elements, 3u);
}

TEST_F(ApplyTest, InterestingSizes) {
  constexpr std::uint64_t kSlabElements = limits::kSlabBytes / 2;
  for (std::uint64_t elements : {std::uint64_t(0), std::uint64_t(1), std::uint64_t(2), std::uint64_t(7),
                                 std::uint64_t(64), std::uint64_t(65), std::uint64_t(4095), std::uint64_t(4096),
                                 kSlabElements - 1, kSlabElements, kSlabElements + 1}) {
    SCOPED_TRACE(::testing::Message() << elements << " elements");
    testing::TestTensor tensor = testing::random_tensor(random_, "t", Dtype::bf16, elements);
    testing::write_file(dir_ / "old/m.safetensors", testing::safetensors({tensor}));
    if (!tensor.data.empty()) tensor.data.back() ^= std::byte{1};
    testing::write_file(dir_ / "new/m.safetensors", testing::safetensors({tensor}));
    expect_round_trip();
    EXPECT_EQ(make().info().changed_elements, elements == 0 ? 0u : 1u);
  }
}

TEST_F(ApplyTest, SideFilesComeGoGrowAndShrink) {
  write_pair();
  fs::remove(dir_ / "new/tokenizer/vocab.txt");
  testing::write_file(dir_ / "new/config.json", std::string(100000, 'x'));
  testing::write_file(dir_ / "new/a/b/c/deep.txt", "deep");
  testing::write_file(dir_ / "old/only_old.txt", "gone");
  expect_round_trip();
  fs::rename(dir_ / "old", dir_ / "x");
  fs::rename(dir_ / "new", dir_ / "old");
  fs::rename(dir_ / "x", dir_ / "new");
  expect_round_trip();
}

TEST_F(ApplyTest, AChangedLayoutTravelsAsAnAnchor) {
  write_pair();
  testing::write_file(dir_ / "new/model-00002-of-00002.safetensors",
                      testing::safetensors({testing::random_tensor(random_, "head", Dtype::f32, 100),
                                            testing::random_tensor(random_, "scale", Dtype::f32, 3)}));
  expect_round_trip();
  EXPECT_EQ(make().info().kind, Kind::anchor);
}

TEST_F(ApplyTest, NothingChanged) {
  testing::write_small_checkpoint(dir_ / "old", random_);
  fs::copy(dir_ / "old", dir_ / "new", fs::copy_options::recursive);
  expect_round_trip();
  EXPECT_TRUE(make().frames().empty());
}

TEST_F(ApplyTest, LinksInsideArriveAsFiles) {
  write_pair();
  for (const char* side : {"old", "new"}) {
    fs::rename(dir_ / side / "config.json", dir_ / side / "real.json");
    fs::create_symlink("real.json", dir_ / side / "config.json");
  }
  expect_round_trip();
  EXPECT_FALSE(fs::is_symlink(dir_ / "out/config.json"));
}

// Replaying onto the wrong base (SkyRL 1902), or twice, must never go through.
TEST_F(ApplyTest, RefusesAnOldThatIsNotTheParentAndNamesTheFile) {
  write_pair();
  DeltaFile delta = make();
  auto expect_wrong = [&](const fs::path& old, const std::string& file) {
    auto applied = apply_delta(old, delta, dir_ / "out", {});
    ASSERT_FALSE(applied.ok());
    EXPECT_EQ(applied.error().code, ErrorCode::wrong_parent) << applied.error().message;
    EXPECT_NE(applied.error().message.find(file), std::string::npos) << applied.error().message;
    EXPECT_FALSE(fs::exists(dir_ / "out"));
  };
  expect_wrong(dir_ / "new", "model-0000");
  fs::copy(dir_ / "old", dir_ / "third", fs::copy_options::recursive);
  std::string shard = testing::read_text(dir_ / "third/model-00002-of-00002.safetensors");
  shard.back() = static_cast<char>(shard.back() ^ 1);  // in a slab of its own, maybe without a frame
  testing::write_file(dir_ / "third/model-00002-of-00002.safetensors", shard);
  expect_wrong(dir_ / "third", "model-00002-of-00002.safetensors differs");
  fs::remove_all(dir_ / "third");
  fs::copy(dir_ / "old", dir_ / "third", fs::copy_options::recursive);
  testing::write_file(dir_ / "third/config.json", R"({"hidden_size": 65})");
  expect_wrong(dir_ / "third", "config.json differs");
  testing::write_file(dir_ / "third/extra.json", "");
  expect_wrong(dir_ / "third", "files and tensors");
  EXPECT_EQ(names(), (std::set<std::string>{"f", "new", "old", "third"}));
}

TEST_F(ApplyTest, RefusesToWriteOverAnything) {
  write_pair();
  DeltaFile delta = make();
  testing::write_file(dir_ / "out/keep", "x");
  EXPECT_EQ(apply_delta(dir_ / "old", delta, dir_ / "out", {}).error().code, ErrorCode::bad_input);
  EXPECT_EQ(testing::read_text(dir_ / "out/keep"), "x");
  EXPECT_EQ(apply_delta(dir_ / "old", delta, dir_ / "f", {}).error().code, ErrorCode::bad_input);
  fs::remove(dir_ / "out/keep");
  EXPECT_TRUE(apply_delta(dir_ / "old", delta, dir_ / "out", {}).ok()) << "an empty folder is taken";
  EXPECT_EQ(apply_delta(dir_ / "old", delta, dir_ / "missing/out", {}).error().code, ErrorCode::not_found);
}

TEST_F(ApplyTest, NothingIsLeftAfterAnInterrupt) {
  write_pair();
  DeltaFile delta = make();
  ApplyOptions options;
  options.stop = [] { return true; };
  EXPECT_EQ(apply_delta(dir_ / "old", delta, dir_ / "out", options).error().code, ErrorCode::interrupted);
  EXPECT_EQ(names(), (std::set<std::string>{"f", "new", "old"}));
}

TEST_F(ApplyTest, ABrokenOldIsTheUsersToMend) {
  write_pair();
  DeltaFile delta = make();
  fs::resize_file(dir_ / "old/model-00001-of-00002.safetensors", 200);
  EXPECT_EQ(apply_delta(dir_ / "old", delta, dir_ / "out", {}).error().code, ErrorCode::bad_input);
}

TEST_F(ApplyTest, VerifyNamesTheFileThatDiffers) {
  write_pair();
  DeltaFile delta = make();
  auto check = [&] {
    auto layout = Layout::scan(dir_ / "new");
    auto digests = digest_checkpoint({dir_ / "new", &*layout}, {});
    return check_leads_to(delta, dir_ / "new", *layout, *digests);
  };
  EXPECT_TRUE(check().ok());
  testing::write_file(dir_ / "new/tokenizer/vocab.txt", "a\nb\nd\n");
  Status differs = check();
  ASSERT_FALSE(differs.ok());
  EXPECT_EQ(differs.error().code, ErrorCode::integrity);
  EXPECT_NE(differs.error().message.find("tokenizer/vocab.txt differs"), std::string::npos);
}

}  // namespace
}  // namespace p2pw
