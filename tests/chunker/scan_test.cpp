#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "chunker/layout.h"
#include "protocol/limits.h"
#include "tests/support/checkpoint.h"
#include "tests/support/temp_dir.h"

namespace p2pw {
namespace {

using testing::write_file;
namespace fs = std::filesystem;

class Scan : public ::testing::Test {
 protected:
  Scan() : random_(1) { testing::write_small_checkpoint(dir_.path(), random_); }

  void expect_refused(const std::string& file, const std::string& reason) {
    auto layout = Layout::scan(dir_.path());
    ASSERT_FALSE(layout.ok()) << reason;
    const Error& error = layout.error();
    EXPECT_EQ(error.code, ErrorCode::bad_input) << error.message;
    EXPECT_NE(error.message.find(file), std::string::npos) << error.message;
    EXPECT_NE(error.message.find(reason), std::string::npos) << error.message;
    EXPECT_EQ(error.message.find('\n'), std::string::npos);
  }

  void index(const std::string& weight_map) {
    write_file(dir_ / "model.safetensors.index.json", "{\"weight_map\":" + weight_map + "}");
  }

  const std::string first_ = "model-00001-of-00002.safetensors", second_ = "model-00002-of-00002.safetensors";
  testing::TempDir dir_;
  std::mt19937_64 random_;
};

TEST_F(Scan, TakesShardsIndexAndSideFilesInFolders) {
  auto layout = Layout::scan(dir_.path());
  ASSERT_TRUE(layout.ok()) << layout.error().message;
  std::vector<std::string> paths;
  for (const FileEntry& file : layout->files()) paths.push_back(file.path);
  EXPECT_EQ(paths, (std::vector<std::string>{"config.json", "empty.txt", first_, second_,
                                             "model.safetensors.index.json", "tokenizer/vocab.txt"}));
  EXPECT_EQ(layout->files()[2].tensors.size(), 2u);
  EXPECT_EQ(layout->files()[2].tensors[0].name, "embed");
}

TEST_F(Scan, NeedsNoIndexForOneOrSeveralFiles) {
  fs::remove(dir_ / "model.safetensors.index.json");
  EXPECT_TRUE(Layout::scan(dir_.path()).ok());
  fs::remove(dir_ / second_);
  EXPECT_TRUE(Layout::scan(dir_.path()).ok());
}

TEST_F(Scan, RefusesATruncatedShard) {
  fs::resize_file(dir_ / second_, fs::file_size(dir_ / second_) - 10);
  expect_refused(second_, "tensor \"scale\"");
  expect_refused(second_, "cut short");
  fs::resize_file(dir_ / second_, 4);
  expect_refused(second_, "too short");
}

TEST_F(Scan, RefusesAHeaderLengthPastTheEnd) {
  write_file(dir_ / first_, std::string("\xff\xff\0\0\0\0\0\0{}", 10));
  expect_refused(first_, "runs past the end of the file");
}

TEST_F(Scan, NamesFileTensorAndReason) {
  write_file(dir_ / first_,
             testing::raw_safetensors(R"({"embed":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                                      R"("norm":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                                      "xxx"));
  expect_refused(first_, "tensor \"norm\": data_offsets overlap");
}

TEST_F(Scan, RefusesAnIndexThatNamesAMissingShard) {
  index(R"({"embed":"model-00003-of-00002.safetensors"})");
  expect_refused("model.safetensors.index.json", "shard \"model-00003-of-00002.safetensors\" of tensor \"embed\" is missing");
}

TEST_F(Scan, RefusesAnIndexThatNamesAPathOutside) {
  write_file(dir_.path().parent_path() / (dir_.path().filename().string() + "-outside") / "x.safetensors", "x");
  index(R"({"embed":"../outside/x.safetensors"})");
  expect_refused("model.safetensors.index.json", "outside the checkpoint");
  index(R"({"embed":"/etc/passwd"})");
  expect_refused("model.safetensors.index.json", "outside the checkpoint");
  fs::remove_all(dir_.path().string() + "-outside");
}

TEST_F(Scan, RefusesAnIndexThatPutsATensorElsewhere) {
  index(R"({"embed":")" + second_ + "\"}");
  expect_refused("model.safetensors.index.json", "tensor \"embed\" is not in its shard");
  index(R"({"embed":"config.json"})");
  expect_refused("model.safetensors.index.json", "not a .safetensors file");
}

TEST_F(Scan, RefusesAnIndexThatIsNotOne) {
  index(R"({"embed":")" + first_ + R"(","embed":")" + first_ + "\"}");
  expect_refused("model.safetensors.index.json", "tensor \"embed\" occurs twice");
  index("[]");
  expect_refused("model.safetensors.index.json", "weight_map is not an object");
  index(R"({"embed":1})");
  expect_refused("model.safetensors.index.json", "not a string");
  write_file(dir_ / "model.safetensors.index.json", "{}");
  expect_refused("model.safetensors.index.json", "has no weight_map");
  write_file(dir_ / "model.safetensors.index.json", "[]");
  expect_refused("model.safetensors.index.json", "not a JSON object");
  write_file(dir_ / "model.safetensors.index.json", R"({"weight_map":{},"weight_map":{}})");
  expect_refused("model.safetensors.index.json", "\"weight_map\" occurs twice");
  write_file(dir_ / "model.safetensors.index.json", "{\"weight_map\":");
  expect_refused("model.safetensors.index.json", "not valid UTF-8 JSON");
}

// Found in the wild: other keys, nested objects, a wrong total_size, tensors that the index does not list.
TEST_F(Scan, DoesNotTrustWhatItDoesNotNeed) {
  write_file(dir_ / "model.safetensors.index.json",
             R"({"metadata":{"total_size":-1,"weight_map":{"x":[1,{"weight_map":2}]}},"extra":[null,true,1.5],)"
             R"("weight_map":{"embed":")" + first_ + R"("},"more":{"a":{"b":"c"}}})");
  auto layout = Layout::scan(dir_.path());
  EXPECT_TRUE(layout.ok()) << layout.error().message;
}

TEST_F(Scan, ChecksAnIndexInASubfolderAgainstThatFolder) {
  fs::create_directories(dir_ / "draft");
  fs::copy_file(dir_ / first_, dir_ / "draft/part.safetensors");
  write_file(dir_ / "draft/x.safetensors.index.json", R"({"weight_map":{"embed":"part.safetensors"}})");
  EXPECT_TRUE(Layout::scan(dir_.path()).ok());
  write_file(dir_ / "draft/x.safetensors.index.json", "{\"weight_map\":{\"embed\":\"" + first_ + "\"}}");
  expect_refused("draft/x.safetensors.index.json", "is missing");
}

TEST_F(Scan, RefusesAShardThatIsAFolder) {
  fs::remove(dir_ / second_);
  fs::create_directory(dir_ / second_);
  expect_refused(second_, "a folder in the place of a shard");
}

TEST_F(Scan, RefusesAPipeWithoutWaitingForItsWriter) {
  fs::remove(dir_ / second_);
  ASSERT_EQ(mkfifo((dir_ / second_).c_str(), 0600), 0);
  expect_refused(second_, "a pipe");
}

TEST_F(Scan, FollowsLinksInsideAndRefusesThoseThatLeave) {
  fs::rename(dir_ / second_, dir_ / "blob");
  fs::create_symlink("blob", dir_ / second_);
  auto layout = Layout::scan(dir_.path());
  EXPECT_TRUE(layout.ok()) << layout.error().message;

  testing::TempDir elsewhere;
  fs::rename(dir_ / "blob", elsewhere / "blob");
  fs::remove(dir_ / second_);
  fs::create_symlink(elsewhere / "blob", dir_ / second_);
  expect_refused(second_, "a link that leaves the directory");
  fs::remove(dir_ / second_);
  fs::create_symlink("nowhere", dir_ / second_);
  expect_refused(second_, "a link that leads nowhere");
  fs::remove(dir_ / second_);
  fs::create_symlink("tokenizer", dir_ / "link");
  fs::remove(dir_ / "model.safetensors.index.json");
  expect_refused("link", "a link to a folder");
}

TEST_F(Scan, RefusesNamesThatDifferOnlyInCase) {
  write_file(dir_ / "Config.json", "{}");
  expect_refused("config.json", "only in case");
}

TEST_F(Scan, RefusesNamesThatAreNotText) {
  write_file(dir_ / "bad\xff.json", "{}");
  expect_refused("bad?.json", "not UTF-8");
}

TEST_F(Scan, RefusesADirectoryWithoutTensors) {
  testing::TempDir empty;
  auto layout = Layout::scan(empty.path());
  ASSERT_FALSE(layout.ok());
  EXPECT_EQ(layout.error().code, ErrorCode::bad_input);
  write_file(empty / "config.json", "{}");
  layout = Layout::scan(empty.path());
  ASSERT_FALSE(layout.ok());
  EXPECT_NE(layout.error().message.find("no .safetensors file"), std::string::npos);
}

TEST_F(Scan, RefusesWhatIsNoDirectory) {
  auto missing = Layout::scan(dir_ / "nowhere");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
  auto file = Layout::scan(dir_ / "config.json");
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, ErrorCode::bad_input);
}

TEST_F(Scan, ErrorsOfUsersDirectoriesEndWithExitCodeTwo) { EXPECT_EQ(exit_code_of(ErrorCode::bad_input), 2); }

}  // namespace
}  // namespace p2pw
