#include "chunker/delta_file.h"

#include <gtest/gtest.h>

#include <set>

#include "chunker/make_delta.h"
#include "tests/support/checkpoint.h"
#include "tests/support/temp_dir.h"

namespace p2pw {
namespace {

namespace fs = std::filesystem;

class DeltaFileTest : public ::testing::Test {
 protected:
  DeltaFileTest() : random_(5) {
    testing::write_small_checkpoint(dir_ / "old", random_);
    fs::copy(dir_ / "old", dir_ / "new", fs::copy_options::recursive);
    testing::change_weights(dir_ / "new", random_, 0.01);
  }
  DeltaSummary make(const SigningKey* key = nullptr, const std::string& name = "f") {
    MakeDeltaOptions options;
    options.key = key;
    auto made = make_delta_file(dir_ / "old", dir_ / "new", dir_ / name, options);
    EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
    return made.ok() ? *made : DeltaSummary();
  }
  ErrorCode open_code(const std::string& contents) {
    testing::write_file(dir_ / "bad", contents);
    auto opened = DeltaFile::open(dir_ / "bad");
    if (opened.ok()) return ErrorCode::busy;  // stands for "opened"
    EXPECT_NE(opened.error().message.find("bad"), std::string::npos);
    return opened.error().code;
  }
  testing::TempDir dir_;
  std::mt19937_64 random_;
};

TEST_F(DeltaFileTest, SaysWhatItHolds) {
  DeltaSummary made = make();
  EXPECT_EQ(made.kind, Kind::delta);
  EXPECT_EQ(made.delta_bytes, fs::file_size(dir_ / "f"));
  EXPECT_GT(made.changed_elements, 0u);
  auto delta = DeltaFile::open(dir_ / "f");
  ASSERT_TRUE(delta.ok()) << delta.error().message;
  EXPECT_EQ(delta->info().changed_elements, made.changed_elements);
  EXPECT_EQ(delta->info().input_bytes, made.input_bytes);
  EXPECT_EQ(delta->size(), made.delta_bytes);
  for (const auto& entry : delta->frames()) {
    EXPECT_FALSE(entry.slab.is_bytes()) << "side files and headers are unchanged";
    EXPECT_EQ(delta->find(entry.slab), &entry);
  }
  EXPECT_EQ(delta->find(SlabId::bytes(0)), nullptr);
  EXPECT_FALSE(delta->is_signed());
}

TEST_F(DeltaFileTest, TheContainerIsTiny) {
  DeltaSummary made = make();
  auto delta = DeltaFile::open(dir_ / "f");
  ASSERT_TRUE(delta.ok());
  std::uint64_t frames = 0;
  for (const auto& entry : delta->frames()) frames += entry.length;
  EXPECT_LT(made.delta_bytes - frames, 300u + 18 * delta->frames().size());
}

TEST_F(DeltaFileTest, TheSameInputGivesTheSameFile) {
  make(nullptr, "a");
  make(nullptr, "b");
  EXPECT_EQ(testing::read_text(dir_ / "a"), testing::read_text(dir_ / "b"));
}

// Made by hand from the description in delta_file.h. A change of the format changes its number too.
TEST_F(DeltaFileTest, TheFormatIsPinned) {
  auto writer = DeltaFileWriter::create(dir_ / "f");
  ASSERT_TRUE(writer.ok());
  auto take = [&](SlabId slab, std::string_view bytes, std::uint8_t first_digest_byte) {
    Frame frame;
    frame.slab = slab;
    frame.bytes.assign(as_bytes(bytes).begin(), as_bytes(bytes).end());
    for (std::size_t i = 0; i < 16; ++i) frame.digest.data[i] = static_cast<std::uint8_t>(first_digest_byte + i);
    EXPECT_TRUE((*writer)->take(std::move(frame)).ok());
  };
  take(SlabId::bytes(1), "frame-one", 0);
  take(SlabId::tensor(2), "frame two!", 16);
  DeltaFileInfo info;
  info.kind = Kind::delta;
  info.layout_hash.data.fill(0x11);
  info.parent_table.data.fill(0x22);
  info.table.data.fill(0x33);
  info.input_bytes = 1000;
  info.total_elements = 500;
  info.changed_elements = 25;
  info.parent_checks = {FileCheck{{1, 2, 3, 4}}};
  info.checks = {FileCheck{{5, 6, 7, 8}}, FileCheck{{9, 10, 11, 12}}};
  ASSERT_TRUE((*writer)->commit(info, nullptr).ok());
  EXPECT_EQ(to_hex(as_bytes(testing::read_text(dir_ / "f"))),
            "70327077646c7401" "6672616d652d6f6e65" "6672616d652074776f21"
            "02" "0109000102030405060708090a0b0c0d0e0f" "80808080080a101112131415161718191a1b1c1d1e1f"
            "0101020304" "0205060708090a0b0c"
            "0207eda9bf39639f8dee3d1d7dbd06b81599ca00ef1b43a7dcca4ff33cf6ce392e"
            "1111111111111111111111111111111111111111111111111111111111111111"
            "2222222222222222222222222222222222222222222222222222222222222222"
            "3333333333333333333333333333333333333333333333333333333333333333"
            "e803000000000000f40100000000000019000000000000003700000000000000"
            "00a1d6f0e63a813efe");
  auto back = DeltaFile::open(dir_ / "f");
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->frames()[1].slab, SlabId::tensor(2));
  EXPECT_EQ(back->info().checks, info.checks);
}

TEST_F(DeltaFileTest, AnyFlippedByteIsFound) {
  SigningKey key = SigningKey::generate();
  make(&key);
  const std::string good = testing::read_text(dir_ / "f");
  for (std::size_t i = 0; i < good.size(); i += i < 16 || i + 400 > good.size() ? 1 : 37) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << random_() % 8));
    ErrorCode code = open_code(bad);
    EXPECT_EQ(exit_code_of(code), 4) << "byte " << i << ": " << name_of(code);
  }
}

TEST_F(DeltaFileTest, AnyCutIsFoundAndSoIsWhatFollows) {
  make();
  const std::string good = testing::read_text(dir_ / "f");
  for (std::size_t length = 0; length < good.size(); length += length < 400 ? 1 : 97) {
    EXPECT_EQ(exit_code_of(open_code(good.substr(0, length))), 4) << length;
  }
  EXPECT_EQ(exit_code_of(open_code(good + "x")), 4);
}

TEST_F(DeltaFileTest, OtherFormatsAreRefusedByName) {
  make();
  std::string other = testing::read_text(dir_ / "f");
  other[7] = 9;
  testing::write_file(dir_ / "bad", other);
  auto opened = DeltaFile::open(dir_ / "bad");
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, ErrorCode::unsupported);
  EXPECT_NE(opened.error().message.find("format 9; this build knows 1"), std::string::npos) << opened.error().message;
  EXPECT_EQ(open_code("something else entirely"), ErrorCode::malformed);
}

TEST_F(DeltaFileTest, ASignatureCountsOnlyWithTheRightKey) {
  SigningKey key = SigningKey::generate(), other = SigningKey::generate();
  make(&key, "signed");
  make(nullptr, "unsigned");
  auto with = DeltaFile::open(dir_ / "signed"), without = DeltaFile::open(dir_ / "unsigned");
  ASSERT_TRUE(with.ok() && without.ok());
  EXPECT_TRUE(with->check_signature(key.verifying_key()).ok());
  EXPECT_EQ(with->signer(), key.verifying_key().id);
  Status wrong = with->check_signature(other.verifying_key());
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().code, ErrorCode::untrusted);
  EXPECT_NE(wrong.error().message.find("signed by key"), std::string::npos);
  VerifyingKey same_id = other.verifying_key();
  same_id.id = key.verifying_key().id;
  EXPECT_EQ(with->check_signature(same_id).error().code, ErrorCode::untrusted);
  Status unsigned_file = without->check_signature(key.verifying_key());
  ASSERT_FALSE(unsigned_file.ok());
  EXPECT_NE(unsigned_file.error().message.find("unsigned"), std::string::npos);
}

// A signature is of its file: it does not make another one good.
TEST_F(DeltaFileTest, ASignatureCannotBeMoved) {
  SigningKey key = SigningKey::generate();
  make(&key, "a");
  testing::change_weights(dir_ / "new", random_, 0.01);
  make(&key, "b");
  std::string a = testing::read_text(dir_ / "a"), b = testing::read_text(dir_ / "b");
  const std::size_t tail = 9 + Signature::kSize;
  b.replace(b.size() - tail, Signature::kSize, a.substr(a.size() - tail, Signature::kSize));
  EXPECT_EQ(open_code(b), ErrorCode::integrity);
}

TEST_F(DeltaFileTest, NothingIsLeftWithoutCommit) {
  {
    auto writer = DeltaFileWriter::create(dir_ / "never");
    ASSERT_TRUE(writer.ok());
    Frame frame;
    frame.bytes.resize(10);
    ASSERT_TRUE((*writer)->take(std::move(frame)).ok());
  }
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(dir_.path())) names.insert(entry.path().filename().string());
  EXPECT_EQ(names, (std::set<std::string>{"new", "old"}));
}

TEST_F(DeltaFileTest, AnOlderFileOfTheNameIsReplacedOnlyWhenAllIsWell) {
  make();
  const std::string before = testing::read_text(dir_ / "f");
  fs::resize_file(dir_ / "new/model-00001-of-00002.safetensors", 100);
  auto failed = make_delta_file(dir_ / "old", dir_ / "new", dir_ / "f", {});
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, ErrorCode::bad_input);
  EXPECT_EQ(testing::read_text(dir_ / "f"), before);
}

}  // namespace
}  // namespace p2pw
