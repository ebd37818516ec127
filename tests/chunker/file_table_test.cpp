#include "chunker/file_table.h"

#include <gtest/gtest.h>

#include "chunker/varint.h"
#include "protocol/limits.h"
#include "tests/support/checkpoint.h"

namespace p2pw {
namespace {

FileEntry side(std::string path, std::uint64_t size) { return {std::move(path), size, 0, {}}; }
FileEntry tensors(std::string path, std::uint64_t size, std::uint64_t header) {
  return {std::move(path), size, header, {}};
}

Bytes encode(const std::vector<FileEntry>& files) {
  Bytes out{std::byte{1}};
  put_varint(out, files.size());
  for (const FileEntry& file : files) {
    put_varint(out, file.path.size());
    put_bytes(out, as_bytes(file.path));
    put_varint(out, file.size);
    put_varint(out, file.header_bytes);
  }
  return out;
}

void expect_malformed(const std::vector<FileEntry>& files, const std::string& reason,
                      ErrorCode code = ErrorCode::malformed) {
  auto parsed = FileTable::parse(encode(files));
  ASSERT_FALSE(parsed.ok()) << reason;
  EXPECT_EQ(parsed.error().code, code) << parsed.error().message;
  EXPECT_NE(parsed.error().message.find(reason), std::string::npos) << parsed.error().message;
}

TEST(FileTable, SortsAndReadsBackWhatItWrote) {
  auto made = FileTable::make({side("z.json", 3), tensors("m.safetensors", 100, 20), side("a/b.txt", 0)},
                              ErrorCode::bad_input);
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->files()[0].path, "a/b.txt");
  EXPECT_EQ(made->total_bytes(), 103u);
  auto parsed = FileTable::parse(made->encoded());
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed->encoded(), made->encoded());
  EXPECT_EQ(parsed->files()[1].header_bytes, 20u);
  EXPECT_EQ(parsed->byte_slabs().size(), made->byte_slabs().size());
}

TEST(FileTable, ByteSlabsAreTableThenHeadersThenSideFiles) {
  constexpr std::uint64_t kBig = limits::kSlabBytes + 5;
  auto table = FileTable::make({side("a.bin", kBig), tensors("b.safetensors", 2 * kBig, kBig), side("c.txt", 0),
                                side("d.txt", 7), tensors("e.safetensors", 30, 10)},
                               ErrorCode::bad_input);
  ASSERT_TRUE(table.ok()) << table.error().message;
  struct Row {
    std::uint32_t file;
    std::uint64_t offset;
    std::uint32_t length;
  };
  std::vector<Row> expected{{1, 0, limits::kSlabBytes}, {1, limits::kSlabBytes, 5}, {4, 0, 10},
                            {0, 0, limits::kSlabBytes}, {0, limits::kSlabBytes, 5}, {3, 0, 7}};
  const auto& slabs = table->byte_slabs();
  ASSERT_EQ(slabs.size(), expected.size() + 1);
  EXPECT_EQ(slabs[0].length, table->encoded().size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Slab& slab = slabs[i + 1];
    EXPECT_EQ(slab.id, SlabId::bytes(static_cast<std::uint32_t>(i + 1)));
    EXPECT_EQ(slab.file, expected[i].file) << i;
    EXPECT_EQ(slab.offset, expected[i].offset) << i;
    EXPECT_EQ(slab.length, expected[i].length) << i;
  }
  EXPECT_EQ(table->byte_slabs_of(2).size(), 0u);
  EXPECT_EQ(table->byte_slabs_of(0).size(), 2u);
}

TEST(FileTable, CounterpartsHaveTheSameRole) {
  constexpr std::uint64_t kBig = limits::kSlabBytes + 5;
  auto old_table = FileTable::make({side("a", 1), side("b", 10), tensors("m.safetensors", 100, 20)}, ErrorCode::bad_input);
  auto new_table = FileTable::make({side("b", kBig), side("c", 2), tensors("m.safetensors", 100, 30)}, ErrorCode::bad_input);
  ASSERT_TRUE(old_table.ok() && new_table.ok());
  auto counterpart_of = [&](std::size_t i) { return new_table->counterpart(new_table->byte_slabs()[i], *old_table); };
  EXPECT_EQ(counterpart_of(0), &old_table->byte_slabs()[0]);
  ASSERT_NE(counterpart_of(1), nullptr);  // the header
  EXPECT_EQ(counterpart_of(1)->length, 20u);
  ASSERT_NE(counterpart_of(2), nullptr);  // the start of b
  EXPECT_EQ(counterpart_of(2)->length, 10u);
  EXPECT_EQ(counterpart_of(3), nullptr);  // the rest of b
  EXPECT_EQ(counterpart_of(4), nullptr);  // c
}

TEST(FileTable, RefusesPathsThatLeadOutOfTheCheckpoint) {
  for (const char* path : {"../x", "a/../../x", "/etc/passwd", "a//b", "a/", ".", "./a", "a/.", "", "a\nb"}) {
    auto parsed = FileTable::parse(encode({side(path, 1)}));
    ASSERT_FALSE(parsed.ok()) << path;
    EXPECT_EQ(parsed.error().code, ErrorCode::malformed);
  }
  expect_malformed({side(std::string("a\0b", 3), 1)}, "control character");
  expect_malformed({side("a\xff", 1)}, "not UTF-8");
  expect_malformed({side(std::string(300, 'x'), 1)}, "longer than 255");
  expect_malformed({side("\xed\xa0\x80", 1)}, "not UTF-8");  // a surrogate
  EXPECT_TRUE(FileTable::parse(encode({side("...", 1), side("\xc3\xa9/..x", 1)})).ok());
}

TEST(FileTable, RefusesNamesThatCannotLiveTogether) {
  expect_malformed({side("A.json", 1), side("a.json", 1)}, "only in case");
  expect_malformed({side("Sub/x", 1), side("sub/y", 1)}, "only in case");
  expect_malformed({side("a", 1), side("a-b", 1), side("a/b", 1)}, "both a file and a folder");
  expect_malformed({side("a", 1), side("a", 1)}, "out of order");
  expect_malformed({side("b", 1), side("a", 1)}, "out of order");
  auto twice = FileTable::make({side("a", 1), side("a", 1)}, ErrorCode::bad_input);
  ASSERT_FALSE(twice.ok());
  EXPECT_EQ(twice.error().code, ErrorCode::bad_input);
}

TEST(FileTable, RefusesSizesThatCannotBe) {
  expect_malformed({tensors("a.safetensors", 100, 101)}, "impossible header size");
  expect_malformed({tensors("a.safetensors", 100, 8)}, "impossible header size");
  expect_malformed({side("a.safetensors", 100)}, "without a header");
  expect_malformed({tensors("a.json", 100, 20)}, "not .safetensors");
  expect_malformed({side("a", limits::kMaxSideFileBytes + 1)}, "larger than 4 GiB");
  expect_malformed({tensors("a.safetensors", UINT64_MAX, 20)}, "larger than 32 TiB");
  expect_malformed({}, "without files");
}

TEST(FileTable, RefusesBadEncodings) {
  Bytes good = encode({side("a", 300)});
  for (std::size_t cut = 0; cut < good.size(); ++cut) {
    EXPECT_FALSE(FileTable::parse(ByteView(good).first(cut)).ok()) << cut;
  }
  Bytes longer = good;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(FileTable::parse(longer).ok());
  Bytes padded{std::byte{1}, std::byte{0x81}, std::byte{0}};  // the number 1 in two bytes
  padded.insert(padded.end(), good.begin() + 2, good.end());
  EXPECT_FALSE(FileTable::parse(padded).ok());
  Bytes huge{std::byte{1}};
  put_varint(huge, limits::kMaxFiles);
  EXPECT_FALSE(FileTable::parse(huge).ok());
  Bytes other = good;
  other[0] = std::byte{2};
  auto parsed = FileTable::parse(other);
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().code, ErrorCode::unsupported);
  EXPECT_NE(parsed.error().message.find("format 2"), std::string::npos);
}

}  // namespace
}  // namespace p2pw
