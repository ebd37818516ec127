#include "chunker/slab_reader.h"

#include <gtest/gtest.h>

#include "tests/support/checkpoint.h"
#include "tests/support/temp_dir.h"

namespace p2pw {
namespace {

namespace fs = std::filesystem;

class SlabReaderTest : public ::testing::Test {
 protected:
  SlabReaderTest() {
    std::mt19937_64 random(1);
    testing::write_small_checkpoint(dir_.path(), random);
    auto layout = Layout::scan(dir_.path());
    if (layout.ok()) layout_.emplace(std::move(*layout));
  }
  Status read(const SlabReader& reader, const Slab& slab) {
    buffer_.resize(slab.length);
    return reader.read(slab, buffer_);
  }
  testing::TempDir dir_;
  std::optional<Layout> layout_;
  Bytes buffer_;
  const std::string shard_ = "model-00001-of-00002.safetensors";
};

TEST_F(SlabReaderTest, ReadsTheFileTableHeadersSideFilesAndTensors) {
  SlabReader reader(dir_.path(), *layout_);
  ASSERT_TRUE(read(reader, layout_->byte_slabs()[0]).ok());
  EXPECT_EQ(buffer_, layout_->file_table());
  std::map<std::string, std::string> rebuilt;
  auto put = [&](const Slab& slab) {
    ASSERT_TRUE(read(reader, slab).ok());
    std::string& file = rebuilt[layout_->files()[slab.file].path];
    if (file.size() < slab.offset + slab.length) file.resize(slab.offset + slab.length);
    file.replace(slab.offset, slab.length, as_text(buffer_));
  };
  for (std::size_t i = 1; i < layout_->byte_slabs().size(); ++i) put(layout_->byte_slabs()[i]);
  for (const Slab& slab : layout_->tensor_slabs()) put(slab);
  rebuilt["empty.txt"] = "";
  EXPECT_EQ(rebuilt, testing::tree(dir_.path())) << "slabs cover every byte of every file";
  EXPECT_TRUE(reader.check_unchanged().ok());
}

TEST_F(SlabReaderTest, AFileThatShrinksIsAnErrorNotASignal) {
  SlabReader reader(dir_.path(), *layout_);
  const Slab& slab = layout_->tensor_slabs().front();
  ASSERT_TRUE(read(reader, slab).ok());
  fs::resize_file(dir_ / shard_, slab.offset + 1);
  EXPECT_FALSE(read(reader, slab).ok());
  EXPECT_EQ(reader.check_unchanged().error().code, ErrorCode::bad_input);
}

TEST_F(SlabReaderTest, AFileThatIsReplacedOrRewrittenIsFoundOut) {
  SlabReader reader(dir_.path(), *layout_);
  ASSERT_TRUE(read(reader, layout_->tensor_slabs().front()).ok());
  std::string contents = testing::read_text(dir_ / shard_);
  testing::write_file(dir_ / "new", contents);
  fs::rename(dir_ / "new", dir_ / shard_);
  Status changed = reader.check_unchanged();
  ASSERT_FALSE(changed.ok());
  EXPECT_EQ(changed.error().code, ErrorCode::bad_input);
  EXPECT_NE(changed.error().message.find(shard_), std::string::npos);
}

TEST_F(SlabReaderTest, AFileOfAnotherSizeThanTheLayoutSaysIsRefused) {
  testing::write_file(dir_ / "config.json", "{}");
  SlabReader reader(dir_.path(), *layout_);
  for (const Slab& slab : layout_->byte_slabs()) {
    if (slab.id == SlabId::bytes(0) || layout_->files()[slab.file].path != "config.json") continue;
    Status status = read(reader, slab);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::bad_input);
  }
}

}  // namespace
}  // namespace p2pw
