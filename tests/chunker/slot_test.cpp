#include "chunker/slot.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "tests/support/slot_driver.h"

namespace p2pw {
namespace {

using testing::Files;
using testing::files_in;
using testing::MemoryFileSystem;
using testing::SlotDriver;
using testing::TestSeries;
using testing::TestVersion;

class SlotTest : public ::testing::Test {
 protected:
  SlotTest() {
    v1_ = series_.first().version;
    v2_ = series_.step(v1_).version;
    v3_ = series_.step(v2_, true).version;
    (void)files_.make_directories("/c/slots");
    (void)files_.sync_directory("/c");
    (void)files_.sync_directory("/");
    open();
  }

  void open() {
    store_ = std::make_shared<ByteStore>(files_, "/c/bytes");
    a_ = open_slot(SlotName::a);
    b_ = open_slot(SlotName::b);
  }
  std::shared_ptr<Slot> open_slot(SlotName name) {
    auto slot = Slot::open(files_, "/c/slots/" + std::string(name_of(name)), name, store_);
    EXPECT_TRUE(slot) << slot.error().message;
    return slot ? *slot : nullptr;
  }
  void expect_holds(const Slot& slot, Version version) {
    EXPECT_EQ(slot.phase(), Slot::Phase::whole);
    EXPECT_EQ(slot.version(), version);
    EXPECT_TRUE(files_in(files_, slot.checkpoint()) == series_.at(version).files);
  }
  // Where a tensor slab of the series' first layout lies.
  std::pair<std::filesystem::path, std::uint64_t> place_of(const Slot& slot, std::uint32_t index) {
    const Layout& layout = *series_.at(v1_).table.bytes.layout;
    const Slab& slab = layout.tensor_slabs()[index];
    return {slot.checkpoint() / layout.files()[slab.file].path, slab.offset};
  }
  std::uint32_t changed_slab(Version from, Version to) {
    return series_.frames(&series_.at(from), series_.at(to)).tensors.begin()->first;
  }

  TestSeries series_{11};
  MemoryFileSystem files_;
  std::shared_ptr<ByteStore> store_;
  std::shared_ptr<Slot> a_, b_;
  Version v1_, v2_, v3_;
};

TEST_F(SlotTest, StartsEmpty) {
  EXPECT_EQ(a_->phase(), Slot::Phase::empty);
  EXPECT_EQ(a_->version(), Version());
  EXPECT_FALSE(a_->staged());
  EXPECT_EQ(a_->note(), "");
}

TEST_F(SlotTest, AnchorThenDeltasAreExact) {
  auto staged = SlotDriver(series_, *a_).go({v1_});
  ASSERT_TRUE(staged) << staged.error().message;
  expect_holds(*a_, v1_);
  staged = SlotDriver(series_, *a_).go({v1_, v2_});
  ASSERT_TRUE(staged) << staged.error().message;
  expect_holds(*a_, v2_);
  staged = SlotDriver(series_, *a_).go({v2_, v3_});
  ASSERT_TRUE(staged) << staged.error().message;
  expect_holds(*a_, v3_);
  EXPECT_EQ(staged->version(), v3_);
  EXPECT_EQ(staged->table_hash(), series_.at(v3_).table.hash());
}

TEST_F(SlotTest, SurvivesReopening) {
  ASSERT_TRUE(SlotDriver(series_, *a_).go({v1_, v2_}));
  open();
  expect_holds(*a_, v2_);
  EXPECT_EQ(a_->staged()->version(), v2_);
  ASSERT_TRUE(SlotDriver(series_, *a_).go({v2_, v3_}));
  expect_holds(*a_, v3_);
}

TEST_F(SlotTest, MappedFilesAreExact) {
  files_.mapped = true;
  ASSERT_TRUE(SlotDriver(series_, *a_).go({v1_}));
  ASSERT_TRUE(SlotDriver(series_, *a_).go({v1_, v2_, v3_}));
  expect_holds(*a_, v3_);
}

TEST_F(SlotTest, ShortWritesAreExact) {
  files_.short_writes = true;
  ASSERT_TRUE(SlotDriver(series_, *a_).go({v1_, v2_, v3_}));
  expect_holds(*a_, v3_);
}

TEST_F(SlotTest, SideFilesGrowComeAndGo) {
  ASSERT_TRUE(SlotDriver(series_, *a_).go({v2_}));
  ASSERT_TRUE(SlotDriver(series_, *a_).go({v2_, v3_}));
  EXPECT_TRUE(files_.exists(a_->checkpoint() / "added.txt"));
  Version v4 = series_.step(v3_, true).version;
  ASSERT_TRUE(SlotDriver(series_, *a_).go({v3_, v4}));
  EXPECT_FALSE(files_.exists(a_->checkpoint() / "added.txt"));
  expect_holds(*a_, v4);
}

TEST_F(SlotTest, AnotherLayoutReplacesEverything) {
  ASSERT_TRUE(SlotDriver(series_, *a_).go({v1_}));
  Version v4 = series_.reshape(v3_).version;
  ASSERT_TRUE(SlotDriver(series_, *a_).go({v4}));
  expect_holds(*a_, v4);
  open();
  expect_holds(*a_, v4);
}

TEST_F(SlotTest, IsNotWholeWhilePatching) {
  ASSERT_TRUE(SlotDriver(series_, *a_).go({v1_}));
  ASSERT_TRUE(a_->begin_delta(RunId{}, v2_));
  EXPECT_EQ(a_->phase(), Slot::Phase::patching);
  EXPECT_FALSE(a_->staged());
  open();
  EXPECT_EQ(a_->phase(), Slot::Phase::patching);
  EXPECT_FALSE(a_->staged());
  EXPECT_EQ(a_->version(), v1_);
}

TEST_F(SlotTest, RefusesToPatchAWholeSlot) {
  ASSERT_TRUE(SlotDriver(series_, *a_).go({v1_}));
  SlabScratch scratch;
  SlabChain chain;
  chain.parent = series_.at(v1_).table.tensors[0];
  auto applied = a_->apply(0, chain, scratch);
  ASSERT_FALSE(applied);
  EXPECT_EQ(applied.error().code, ErrorCode::usage);
  EXPECT_FALSE(a_->put(0, series_.at(v1_).tensor_slabs[0], series_.at(v1_).table.tensors[0]));
  expect_holds(*a_, v1_);
}

TEST_F(SlotTest, AFrameIsNeverAppliedTwiceOrToTheWrongParent) {
  ASSERT_TRUE(SlotDriver(series_, *a_).go({v1_}));
  std::uint32_t slab = changed_slab(v1_, v2_);
  auto frames = series_.frames(&series_.at(v1_), series_.at(v2_));
  SlabChain chain;
  chain.parent = series_.at(v1_).table.tensors[slab];
  chain.after = {frames.tensors.at(slab).digest};
  int opened = 0;
  chain.frame = [&](std::size_t) -> Result<ByteView> {
    ++opened;
    return ByteView(frames.tensors.at(slab).frame);
  };
  SlabScratch scratch;
  ASSERT_TRUE(a_->begin_delta(RunId{}, v2_));
  auto applied = a_->apply(slab, chain, scratch);
  ASSERT_TRUE(applied && applied->done);
  EXPECT_EQ(applied->steps, 1u);
  applied = a_->apply(slab, chain, scratch);
  ASSERT_TRUE(applied && applied->done);
  EXPECT_EQ(applied->steps, 0u);
  EXPECT_EQ(opened, 1);
  // Of another parent: told, and not touched.
  chain.parent = Digest{};
  chain.after = {Digest{}};
  applied = a_->apply(slab, chain, scratch);
  ASSERT_TRUE(applied);
  EXPECT_FALSE(applied->done);
  EXPECT_NE(applied->reason, "");
  EXPECT_EQ(opened, 1);
  EXPECT_EQ(a_->known_digest(slab), series_.at(v2_).table.tensors[slab]);
}

TEST_F(SlotTest, SealThatSaysSomethingElseIsRefused) {
  ASSERT_TRUE(SlotDriver(series_, *a_).go({v1_}));
  ASSERT_TRUE(a_->begin_delta(RunId{}, v1_));
  Sha256 other = series_.at(v2_).table.hash();
  auto finish = a_->finish(v1_, SealHash{}, other, a_->table());
  ASSERT_FALSE(finish);
  EXPECT_EQ(finish.error().code, ErrorCode::integrity);
  EXPECT_EQ(a_->phase(), Slot::Phase::patching);
}

TEST_F(SlotTest, FinishNamesTheSlabsThatAreNotThere) {
  ASSERT_TRUE(SlotDriver(series_, *a_).go({v1_}));
  ASSERT_TRUE(a_->begin_delta(RunId{}, v2_));
  auto want = std::make_shared<CheckpointTable>(series_.at(v2_).table);
  auto finish = a_->finish(v2_, SealHash{}, want->hash(), want);
  ASSERT_TRUE(finish) << finish.error().message;
  EXPECT_FALSE(finish->staged);
  EXPECT_EQ(finish->open_slabs.size(), series_.frames(&series_.at(v1_), series_.at(v2_)).tensors.size());
}

TEST_F(SlotTest, RottenSlabIsFoundAndRefilled) {
  for (bool mapped : {false, true}) {
    SCOPED_TRACE(mapped);
    files_.mapped = mapped;
    ASSERT_TRUE(SlotDriver(series_, *a_).go({v1_}));
    ASSERT_TRUE(SlotDriver(series_, *b_).go({v1_}));
    std::uint32_t slab = changed_slab(v1_, v2_);
    auto [path, offset] = place_of(*b_, slab);
    files_.flip_byte(path, offset + 5);
    SlotDriver alone(series_, *b_);
    auto staged = alone.go({v1_, v2_});
    ASSERT_FALSE(staged) << "a rotten slab became part of a version";
    EXPECT_EQ(staged.error().code, ErrorCode::incomplete);
    SlotDriver helped(series_, *b_, a_.get());
    staged = helped.go({v1_, v2_});
    ASSERT_TRUE(staged) << staged.error().message;
    EXPECT_EQ(helped.refilled(), 1u);
    expect_holds(*b_, v2_);
  }
}

TEST_F(SlotTest, RefillTakesNothingRottenFromTheOther) {
  ASSERT_TRUE(SlotDriver(series_, *a_).go({v1_}));
  ASSERT_TRUE(SlotDriver(series_, *b_).go({v1_}));
  auto [path, offset] = place_of(*a_, 0);
  files_.flip_byte(path, offset);
  ASSERT_TRUE(b_->begin_delta(RunId{}, v2_));
  SlabScratch scratch;
  SlabChain chain;
  chain.parent = series_.at(v1_).table.tensors[0];
  auto refilled = b_->refill(0, *a_, chain, scratch);
  ASSERT_FALSE(refilled);
  EXPECT_EQ(refilled.error().code, ErrorCode::integrity);
}

TEST_F(SlotTest, PutTakesOnlyWhatWasAskedFor) {
  ASSERT_TRUE(SlotDriver(series_, *a_).go({v1_}));
  ASSERT_TRUE(a_->begin_delta(RunId{}, v2_));
  const TestVersion& v2 = series_.at(v2_);
  Bytes bytes = v2.tensor_slabs[0];
  ASSERT_TRUE(a_->put(0, bytes, v2.table.tensors[0]));
  EXPECT_EQ(a_->known_digest(0), v2.table.tensors[0]);
  bytes[3] ^= std::byte{1};
  Status put = a_->put(0, bytes, v2.table.tensors[0]);
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, ErrorCode::integrity);
  EXPECT_EQ(a_->known_digest(0), v2.table.tensors[0]);
}

TEST_F(SlotTest, DamagedStateFileMakesItEmptyAndItsSlabsAreStillOfUse) {
  ASSERT_TRUE(SlotDriver(series_, *a_).go({v1_}));
  files_.flip_byte("/c/slots/a/state", 20);
  open();
  EXPECT_EQ(a_->phase(), Slot::Phase::empty);
  EXPECT_NE(a_->note().find("checksum"), std::string::npos) << a_->note();
  SlotDriver driver(series_, *a_);
  ASSERT_TRUE(driver.go({v1_}));
  EXPECT_EQ(driver.decoded(), 0u);
  expect_holds(*a_, v1_);
}

TEST_F(SlotTest, MissingFileMakesItNotWhole) {
  ASSERT_TRUE(SlotDriver(series_, *a_).go({v1_}));
  ASSERT_TRUE(SlotDriver(series_, *b_).go({v1_}));
  files_.erase(place_of(*a_, 0).first);
  open();
  EXPECT_EQ(a_->phase(), Slot::Phase::patching);
  EXPECT_NE(a_->note(), "");
  SlotDriver driver(series_, *a_, b_.get());
  auto staged = driver.go({v1_, v2_});
  ASSERT_TRUE(staged) << staged.error().message;
  expect_holds(*a_, v2_);
}

TEST_F(SlotTest, LostByteStoreMakesItEmpty) {
  ASSERT_TRUE(SlotDriver(series_, *a_).go({v1_}));
  for (const std::string& name : files_.files_under("/c/bytes")) files_.erase("/c/bytes/" + name);
  open();
  EXPECT_EQ(a_->phase(), Slot::Phase::empty);
  EXPECT_NE(a_->note(), "");
}

TEST_F(SlotTest, FullDiskLosesNothingAndGoesOnWithRoom) {
  ASSERT_TRUE(SlotDriver(series_, *b_).go({v1_}));
  std::uint64_t used = 0;
  for (const std::string& path : files_.files_under("/c")) {
    if (auto bytes = files_.contents("/c/" + path)) used += bytes->size();
  }
  // Room for nothing; for the byte slabs; for some of the tensor files; for all.
  bool done = false;
  int full = 0;
  for (std::uint64_t room = 0; !done; room += 2000) {
    files_.capacity = used + room;
    auto staged = SlotDriver(series_, *a_, b_.get()).go({v1_, v2_, v3_});
    done = staged.ok();
    if (!staged) {
      ASSERT_EQ(staged.error().code, ErrorCode::no_space) << staged.error().message;
      EXPECT_NE(a_->phase(), Slot::Phase::whole);
      ++full;
    }
  }
  EXPECT_GT(full, 3);
  expect_holds(*a_, v3_);
  expect_holds(*b_, v1_);
}

TEST_F(SlotTest, AfterAFailedSyncNothingIsBelieved) {
  ASSERT_TRUE(SlotDriver(series_, *a_).go({v1_}));
  ASSERT_TRUE(SlotDriver(series_, *b_).go({v1_}));
  files_.fault = [](const std::string& operation, const std::filesystem::path& path) -> std::optional<Error> {
    if (operation == "sync" && path.extension() == ".safetensors") return fail(ErrorCode::io, "EIO");
    return std::nullopt;
  };
  auto staged = SlotDriver(series_, *b_).go({v1_, v2_});
  ASSERT_FALSE(staged);
  EXPECT_EQ(staged.error().code, ErrorCode::io);
  EXPECT_FALSE(b_->known_digest(0));
  // The kernel has dropped what it could not write.
  files_.fault = nullptr;
  files_.drop_unsynced_data();
  staged = SlotDriver(series_, *b_, a_.get()).go({v1_, v2_});
  ASSERT_TRUE(staged) << staged.error().message;
  expect_holds(*b_, v2_);
}

TEST_F(SlotTest, SweepOverManyVersionsReadsAndWritesEachSlabOnce) {
  ASSERT_TRUE(SlotDriver(series_, *a_).go({v1_}));
  std::vector<Version> path{v1_};
  // From here on versions branch off the first one; their numbers do not matter to a slot.
  for (int i = 0; i < 20; ++i) path.push_back(series_.step(path.back()).version);
  std::uint64_t read = 0, written = 0, total = 0;
  files_.watch = [&](bool write, const std::filesystem::path& file, std::size_t bytes) {
    if (file.extension() == ".safetensors") (write ? written : read) += bytes;
  };
  for (const Slab& slab : series_.at(v1_).table.bytes.layout->tensor_slabs()) total += slab.length;
  SlotDriver driver(series_, *a_);
  auto staged = driver.go(path);
  ASSERT_TRUE(staged) << staged.error().message;
  expect_holds(*a_, path.back());
  EXPECT_GT(driver.decoded(), 5 * series_.at(v1_).table.tensors.size());
  EXPECT_LE(read, total);
  EXPECT_LE(written, total);
}

TEST_F(SlotTest, WorksOnRealFileSystems) {
  for (std::filesystem::path parent : {std::filesystem::temp_directory_path(), std::filesystem::path("/dev/shm")}) {
    std::error_code error;
    std::filesystem::path directory = parent / ("p2pw-slot-" + std::to_string(std::random_device{}()));
    if (!std::filesystem::create_directories(directory, error)) continue;  // no /dev/shm here
    auto store = std::make_shared<ByteStore>(real_file_system(), directory / "bytes");
    {
      auto slot = Slot::open(real_file_system(), directory / "a", SlotName::a, store);
      ASSERT_TRUE(slot) << slot.error().message;
      ASSERT_TRUE(SlotDriver(series_, **slot).go({v1_}));
      auto staged = SlotDriver(series_, **slot).go({v1_, v2_, v3_});
      ASSERT_TRUE(staged) << staged.error().message;
    }
    auto slot = Slot::open(real_file_system(), directory / "a", SlotName::a, store);
    ASSERT_TRUE(slot) << slot.error().message;
    EXPECT_EQ((*slot)->phase(), Slot::Phase::whole);
    for (const auto& [path, bytes] : series_.at(v3_).files) {
      auto there = read_small_file(real_file_system(), (*slot)->checkpoint() / path, 1 << 30);
      ASSERT_TRUE(there) << there.error().message;
      EXPECT_TRUE(*there == bytes) << path;
    }
    std::filesystem::remove_all(directory);
  }
}

}  // namespace
}  // namespace p2pw
