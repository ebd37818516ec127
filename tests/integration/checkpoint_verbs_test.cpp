// p2pw diff, apply, inspect, verify and export as a user runs them: answers, exit codes, and what is left behind.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>
#include <set>

#include "tests/support/checkpoint.h"
#include "tests/support/program.h"
#include "tests/support/temp_dir.h"

namespace p2pw {
namespace {

namespace fs = std::filesystem;
using testing::ProgramResult;

class CheckpointVerbs : public ::testing::Test {
 protected:
  CheckpointVerbs() : seed_(testing::fresh_seed()), random_(seed_) {
    testing::write_small_checkpoint(dir_ / "old", random_);
    fs::copy(dir_ / "old", dir_ / "new", fs::copy_options::recursive);
    testing::change_weights(dir_ / "new", random_, 0.02);
  }
  ~CheckpointVerbs() override {
    if (HasFailure()) std::printf("seed %llu\n", static_cast<unsigned long long>(seed_));
  }

  std::string at(const std::string& name) { return dir_ / name; }
  ProgramResult p2pw(std::vector<std::string> arguments) { return testing::run_program("p2pw", arguments); }
  nlohmann::json answer(const ProgramResult& result) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(result.out, nullptr, false);
  }
  void make(const std::string& name = "f") {
    ASSERT_EQ(p2pw({"diff", at("old"), at("new"), "-o", at(name)}).exit_code, 0);
  }
  // One clear line that names the file, the right exit code, nothing left behind.
  void expect_refused(const ProgramResult& result, int exit_code, const std::vector<std::string>& words) {
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    for (const std::string& word : words) EXPECT_NE(result.err.find(word), std::string::npos) << result.err;
    EXPECT_FALSE(fs::exists(dir_ / "out"));
    for (const auto& entry : fs::directory_iterator(dir_.path())) {
      EXPECT_FALSE(entry.path().filename().string().starts_with(".")) << entry.path();
    }
  }
  void break_shard(const std::string& contents) {
    testing::write_file(dir_ / "new/model-00001-of-00002.safetensors", contents);
  }
  void expect_diff_refused(const std::vector<std::string>& words) {
    expect_refused(p2pw({"diff", at("old"), at("new"), "-o", at("out")}), 2, words);
    expect_refused(p2pw({"verify", at("new")}), 2, words);
  }

  std::uint64_t seed_;
  std::mt19937_64 random_;
  testing::TempDir dir_;
};

TEST_F(CheckpointVerbs, DiffAndApplyGiveTheSameDirectory) {
  auto made = answer(p2pw({"diff", at("old"), at("new"), "-o", at("f"), "--json"}));
  EXPECT_EQ(made["delta_bytes"], fs::file_size(dir_ / "f"));
  EXPECT_EQ(made["kind"], "delta");
  EXPECT_GT(made["changed_elements"], 0);
  EXPECT_GT(made["total_elements"], made["changed_elements"]);
  EXPECT_GT(made["input_bytes"], 0);
  EXPECT_GE(made["seconds"], 0.0);
  EXPECT_EQ(made["bit_identical"], true);
  EXPECT_NEAR(made["bits_per_changed_element"].get<double>(),
              8 * made["delta_bytes"].get<double>() / made["changed_elements"].get<double>(), 1e-9);
  auto applied = answer(p2pw({"apply", at("old"), at("f"), "-o", at("out"), "--json"}));
  EXPECT_EQ(applied["bit_identical"], true);
  EXPECT_EQ(applied["signature"], "unsigned");
  EXPECT_EQ(testing::tree(dir_ / "out"), testing::tree(dir_ / "new"));
  auto verified = answer(p2pw({"verify", at("out"), at("f"), "--json"}));
  EXPECT_EQ(verified["bit_identical"], true);
  auto inspected = answer(p2pw({"inspect", at("f"), "--json"}));
  EXPECT_EQ(inspected["table_hash"], verified["table_hash"]);
  EXPECT_EQ(inspected["changed_elements"], made["changed_elements"]);
}

TEST_F(CheckpointVerbs, TextForPeopleSaysUnsigned) {
  make();
  EXPECT_NE(p2pw({"apply", at("old"), at("f"), "-o", at("out")}).out.find("unsigned"), std::string::npos);
  EXPECT_NE(p2pw({"inspect", at("f")}).out.find("unsigned"), std::string::npos);
}

TEST_F(CheckpointVerbs, SignaturesAreCheckedAgainstThePublisher) {
  ASSERT_EQ(p2pw({"keygen", "-o", at("mine.key")}).exit_code, 0) << p2pw({"keygen", "--help"}).out;
  ASSERT_EQ(p2pw({"keygen", "-o", at("other.key")}).exit_code, 0);
  ASSERT_EQ(p2pw({"diff", at("old"), at("new"), "-o", at("f"), "--sign", at("mine.key")}).exit_code, 0);
  auto good = answer(p2pw({"inspect", at("f"), "--publisher", at("mine.pub"), "--json"}));
  EXPECT_EQ(good["signature"], "verified");
  expect_refused(p2pw({"apply", at("old"), at("f"), "-o", at("out"), "--publisher", at("other.pub")}), 4, {"signed by key"});
  make("unsigned");
  expect_refused(p2pw({"apply", at("old"), at("unsigned"), "-o", at("out"), "--publisher", at("mine.pub")}), 4,
                 {"unsigned"});
}

TEST_F(CheckpointVerbs, ATruncatedShard) {
  const std::string shard = testing::read_text(dir_ / "new/model-00001-of-00002.safetensors");
  break_shard(shard.substr(0, shard.size() - 20));
  expect_diff_refused({"model-00001-of-00002.safetensors", "tensor \"norm\"", "cut short"});
}

TEST_F(CheckpointVerbs, AHeaderLengthPastTheEnd) {
  break_shard(std::string("\xff\xff\xff\0\0\0\0\0{}", 10));
  expect_diff_refused({"model-00001-of-00002.safetensors", "past the end of the file"});
}

TEST_F(CheckpointVerbs, OverlappingOffsets) {
  break_shard(testing::raw_safetensors(R"({"embed":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                                       R"("norm":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", "xxx"));
  expect_diff_refused({"model-00001-of-00002.safetensors", "tensor \"norm\"", "overlap"});
}

TEST_F(CheckpointVerbs, ADuplicateKey) {
  break_shard(testing::raw_safetensors(R"({"norm":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                       R"("norm":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x"));
  expect_diff_refused({"model-00001-of-00002.safetensors", "\"norm\" occurs twice"});
}

TEST_F(CheckpointVerbs, ShapeAndSizeThatDisagree) {
  break_shard(testing::raw_safetensors(R"({"embed":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "xxxx"));
  expect_diff_refused({"model-00001-of-00002.safetensors", "tensor \"embed\"", "need 8 bytes"});
}

TEST_F(CheckpointVerbs, AnIndexThatNamesAMissingShardOrOneOutside) {
  const fs::path index = dir_ / "new/model.safetensors.index.json";
  testing::write_file(index, R"({"weight_map":{"embed":"gone.safetensors"}})");
  expect_diff_refused({"model.safetensors.index.json", "gone.safetensors", "\"embed\"", "missing"});
  testing::write_file(index, R"({"weight_map":{"embed":"../old/model-00001-of-00002.safetensors"}})");
  expect_diff_refused({"model.safetensors.index.json", "\"embed\"", "outside"});
}

TEST_F(CheckpointVerbs, AShardThatIsAFolderOrAPipe) {
  const fs::path shard = dir_ / "new/model-00001-of-00002.safetensors";
  fs::remove(shard);
  fs::create_directory(shard);
  expect_diff_refused({"model-00001-of-00002.safetensors", "a folder"});
  fs::remove(shard);
  ASSERT_EQ(mkfifo(shard.c_str(), 0600), 0);
  expect_diff_refused({"model-00001-of-00002.safetensors", "a pipe"});
}

TEST_F(CheckpointVerbs, AnOldThatIsNotTheParent) {
  make();
  expect_refused(p2pw({"apply", at("new"), at("f"), "-o", at("out")}), 4, {"not the parent", "model-0000"});
}

TEST_F(CheckpointVerbs, AFlippedByteInADeltaFile) {
  make();
  std::string bytes = testing::read_text(dir_ / "f");
  for (std::size_t i : {std::size_t(1), std::size_t(7), bytes.size() / 2, bytes.size() - 100, bytes.size() - 1}) {
    std::string bad = bytes;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    testing::write_file(dir_ / "f", bad);
    expect_refused(p2pw({"apply", at("old"), at("f"), "-o", at("out")}), 4, {"/f:"});
  }
}

TEST_F(CheckpointVerbs, WhatIsNotThere) {
  expect_refused(p2pw({"diff", at("old"), at("nowhere"), "-o", at("out")}), 5, {"nowhere"});
  expect_refused(p2pw({"apply", at("old"), at("nowhere"), "-o", at("out")}), 5, {"nowhere"});
  expect_refused(p2pw({"diff", at("old")}), 2, {"--help"});
}

TEST_F(CheckpointVerbs, ErrorsAreJsonToo) {
  auto result = p2pw({"verify", at("nowhere"), "--json"});
  EXPECT_EQ(result.exit_code, 5);
  auto error = nlohmann::json::parse(result.out, nullptr, false);
  EXPECT_EQ(error["error"]["code"], "not_found");
}

}  // namespace
}  // namespace p2pw
