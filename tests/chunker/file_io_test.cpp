#include "chunker/file_io.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/support/checkpoint.h"
#include "tests/support/temp_dir.h"

namespace p2pw {
namespace {

namespace fs = std::filesystem;

TEST(File, ReadsAndWritesAnywhere) {
  testing::TempDir dir;
  auto file = File::create(dir / "f");
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->write(5, as_bytes("hello")).ok());
  Bytes back(5);
  ASSERT_TRUE(file->read(5, back).ok());
  EXPECT_EQ(as_text(back), "hello");
  EXPECT_EQ(file->size().value(), 10u);
  ASSERT_TRUE(file->reserve(100).ok());
  EXPECT_EQ(file->size().value(), 100u);
  ASSERT_TRUE(file->reserve(10).ok());
  EXPECT_EQ(file->size().value(), 100u) << "never shorter";
  Status past = file->read(98, back);
  ASSERT_FALSE(past.ok());
  EXPECT_EQ(past.error().code, ErrorCode::io);
}

TEST(File, RefusesWhatIsNotARegularFile) {
  testing::TempDir dir;
  ASSERT_EQ(mkfifo((dir / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(File::open(dir / "pipe").error().code, ErrorCode::io);
  EXPECT_EQ(File::open(dir.path()).error().code, ErrorCode::io);
  EXPECT_EQ(File::open(dir / "missing").error().code, ErrorCode::not_found);
  testing::write_file(dir / "there", "x");
  EXPECT_FALSE(File::create(dir / "there").ok());
  EXPECT_TRUE(File::open_or_create(dir / "there").ok());
}

TEST(File, ReadFileBoundsTheSize) {
  testing::TempDir dir;
  testing::write_file(dir / "f", "12345");
  EXPECT_EQ(as_text(read_file(dir / "f", 5).value()), "12345");
  EXPECT_EQ(read_file(dir / "f", 4).error().code, ErrorCode::limit);
}

TEST(TemporaryPath, IsGoneUnlessItGetsItsPlace) {
  testing::TempDir dir;
  fs::path abandoned;
  {
    auto temporary = TemporaryPath::beside(dir / "out");
    ASSERT_TRUE(temporary.ok());
    abandoned = temporary->path();
    EXPECT_EQ(abandoned.parent_path(), dir.path());
    testing::write_file(abandoned / "sub/f", "x");
  }
  EXPECT_FALSE(fs::exists(abandoned));
  auto temporary = TemporaryPath::beside((dir / "out").string() + "/");
  ASSERT_TRUE(temporary.ok());
  testing::write_file(temporary->path() / "f", "x");
  ASSERT_TRUE(temporary->rename_to((dir / "out").string() + "/").ok());
  EXPECT_EQ(testing::read_text(dir / "out/f"), "x");
  EXPECT_EQ(TemporaryPath::beside(dir / "no/out").error().code, ErrorCode::not_found);
}

}  // namespace
}  // namespace p2pw
