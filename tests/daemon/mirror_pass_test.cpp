#include "daemon/mirror/mirror_pass.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/signed_series.h"

namespace p2pw {
namespace {

namespace fs = std::filesystem;
using testing::SignedSeries;
using testing::TempDir;

class MirrorPassTest : public ::testing::Test {
 protected:
  Result<MirrorPassed> pass(bool check_all = false) {
    MirrorJob job =
        mirror_job(origin.log, SignedSeries::kNow, [this](const BundleId& id) -> std::shared_ptr<const StoredBundle> {
          return hidden.contains(id) ? nullptr : origin.find(id);
        });
    job.check_all = check_all;
    return run_pass(*store, job, there);
  }
  // A reader that knows nothing but the publisher: the lineage of the newest version that the mirror leads it to.
  std::optional<std::vector<RunId>> read_lineage(ChannelLog& reader) {
    auto bytes = store->get(names.records(), kMaxMirrorRecords);
    if (!bytes) return std::nullopt;
    auto records = decode_records(*bytes);
    if (!records) return std::nullopt;
    for (const Bytes& record : *records) {
      auto kind = reader.receive(record, SignedSeries::kNow).kind;
      EXPECT_TRUE(kind == LogAnswer::Kind::accepted || kind == LogAnswer::Kind::waiting) << name_of(kind);
    }
    return reader.lineage(reader.highest_sealed());
  }
  bool has_all_of(const ChannelLog& reader, const std::vector<RunId>& lineage) {
    for (const RunId& id : lineage) {
      for (auto& [index, record] : reader.run(id)->bundles()) {
        const BundleRecord& bundle = *record.as<BundleRecord>();
        auto size = store->size(names.bundle(id_as<BundleId>(record.id())));
        auto meta = store->get(names.meta(id_as<BundleId>(record.id())), bundle.meta_bytes);
        if (!size || *size != bundle.used_bytes || !meta || !BundleMeta::decode(*meta, bundle).ok()) return false;
      }
    }
    return true;
  }
  std::size_t bundles_in_mirror() const {
    std::size_t count = 0;
    for (auto& entry : fs::recursive_directory_iterator(dir.path())) count += entry.path().extension() == ".bundle";
    return count;
  }
  std::size_t bundles_of(Version version) const { return origin.log.version(version)->bundles().size(); }
  BundleId first_bundle(Version version) const {
    return id_as<BundleId>(origin.log.version(version)->bundles().begin()->second.id());
  }

  TempDir dir;
  SignedSeries origin{7};
  std::unique_ptr<MirrorStore> store = open_folder_store(dir.path());
  MirrorNames names{origin.channel, origin.key.verifying_key().id};
  std::set<BundleId> there, hidden;
};

TEST_F(MirrorPassTest, AReaderFindsTheNewestVersionAndAllThatLeadsToIt) {
  for (int i = 0; i < 3; ++i) origin.next();
  auto passed = pass();
  ASSERT_TRUE(passed.ok()) << passed.error().message;
  EXPECT_EQ(passed->position.version, Version(3));
  EXPECT_EQ(passed->position.anchor, Version(1));
  ChannelLog reader(origin.channel, origin.key.verifying_key());
  auto lineage = read_lineage(reader);
  ASSERT_TRUE(lineage);
  EXPECT_EQ(lineage->size(), 3u);
  EXPECT_EQ(reader.highest_sealed(), Version(3));
  EXPECT_TRUE(has_all_of(reader, *lineage));
}

TEST_F(MirrorPassTest, TheSecondPassUploadsOnlyWhatIsNew) {
  origin.next();
  ASSERT_TRUE(pass().ok());
  EXPECT_EQ(pass()->objects, 0u);
  const Version two = origin.next();
  EXPECT_EQ(pass()->objects, 2 * bundles_of(two));
  // Another writer, which knows nothing of the first: it finds the hint and does nothing.
  there.clear();
  EXPECT_EQ(pass()->objects, 0u);
}

TEST_F(MirrorPassTest, AVersionThatIsNotWholeHereIsNotSpokenOf) {
  origin.next();
  const Version two = origin.next();
  hidden.insert(first_bundle(two));
  auto passed = pass();
  ASSERT_TRUE(passed.ok()) << passed.error().message;
  EXPECT_EQ(passed->position.version, Version(1));
  ChannelLog reader(origin.channel, origin.key.verifying_key());
  ASSERT_TRUE(read_lineage(reader));
  EXPECT_EQ(reader.highest_sealed(), Version(1));
}

TEST_F(MirrorPassTest, WhatThisNodeLacksMayBeInTheMirrorAlready) {
  origin.next();
  ASSERT_TRUE(pass().ok());
  origin.next();
  hidden.insert(first_bundle(Version(1)));  // dropped here since
  there.clear();
  auto passed = pass();
  ASSERT_TRUE(passed.ok()) << passed.error().message;
  EXPECT_EQ(passed->position.version, Version(2));
  // But not when it is nowhere.
  ASSERT_TRUE(store->remove(names.bundle(first_bundle(Version(1)))).ok());
  origin.next();
  there.clear();
  passed = pass();
  ASSERT_FALSE(passed.ok());
  EXPECT_EQ(passed.error().code, ErrorCode::not_found);
  EXPECT_NE(passed.error().message.find("version 1"), std::string::npos);
  ChannelLog reader(origin.channel, origin.key.verifying_key());
  ASSERT_TRUE(read_lineage(reader));
  EXPECT_EQ(reader.highest_sealed(), Version(2)) << "the records that were there stay";
}

TEST_F(MirrorPassTest, ANewAnchorShortensTheWayAndTheOneBeforeTheLastGoes) {
  for (int i = 0; i < 3; ++i) origin.next();
  ASSERT_TRUE(pass().ok());
  origin.anchor_again();  // of version 3
  origin.certify();
  origin.next();
  auto passed = pass();
  ASSERT_TRUE(passed.ok()) << passed.error().message;
  EXPECT_EQ(passed->position, (MirrorPosition{Version(4), Version(3), Version(3)}));
  EXPECT_EQ(passed->removed, 0u) << "whoever is on the older way may finish";
  {
    ChannelLog reader(origin.channel, origin.key.verifying_key());
    auto lineage = read_lineage(reader);
    ASSERT_TRUE(lineage);
    EXPECT_EQ(lineage->size(), 2u);
    EXPECT_TRUE(has_all_of(reader, *lineage));
    EXPECT_NE(reader.certificate(Version(3)), nullptr);
  }
  origin.next();
  origin.anchor_again();  // of version 5
  const std::size_t before = bundles_in_mirror();
  passed = pass();
  ASSERT_TRUE(passed.ok()) << passed.error().message;
  EXPECT_EQ(passed->removed, bundles_of(Version(1)) + bundles_of(Version(2)));
  EXPECT_LT(bundles_in_mirror(), before + passed->objects / 2);
  ChannelLog reader(origin.channel, origin.key.verifying_key());
  auto lineage = read_lineage(reader);
  ASSERT_TRUE(lineage);
  EXPECT_EQ(lineage->size(), 1u);
  EXPECT_EQ(reader.highest_sealed(), Version(5));
  EXPECT_TRUE(has_all_of(reader, *lineage));
  EXPECT_EQ(reader.version(Version(2)), nullptr);
}

TEST_F(MirrorPassTest, ACrashBetweenBundlesAndRecordsLeavesTheOldWayWhole) {
  origin.next();
  ASSERT_TRUE(pass().ok());
  origin.next();
  class Dying : public MirrorStore {
   public:
    Dying(MirrorStore& under, int puts) : under_(under), left_(puts) {}
    Status put(const std::string& name, const MirrorBody& body) override {
      if (left_-- <= 0) return fail(ErrorCode::io, "killed");
      return under_.put(name, body);
    }
    Result<Bytes> get(const std::string& name, std::uint64_t most) override { return under_.get(name, most); }
    Result<Bytes> get_range(const std::string& name, std::uint64_t offset, std::uint64_t length) override {
      return under_.get_range(name, offset, length);
    }
    Result<std::uint64_t> size(const std::string& name) override { return under_.size(name); }
    Status remove(const std::string& name) override { return under_.remove(name); }
    void stop() override {}

   private:
    MirrorStore& under_;
    int left_;
  };
  auto killed_after = [&](int puts) {
    Dying dying(*store, puts);
    MirrorJob job = mirror_job(origin.log, SignedSeries::kNow, [this](const BundleId& id) { return origin.find(id); });
    std::set<BundleId> known;
    EXPECT_FALSE(run_pass(dying, job, known).ok());
    ChannelLog reader(origin.channel, origin.key.verifying_key());
    auto lineage = read_lineage(reader);
    EXPECT_TRUE(lineage && has_all_of(reader, *lineage));
    return reader.highest_sealed();
  };
  EXPECT_EQ(killed_after(1), Version(1)) << "a bundle without its meta";
  for (std::size_t i = 0; i < bundles_of(Version(2)); ++i) EXPECT_EQ(killed_after(2), Version(1)) << i;
  EXPECT_EQ(killed_after(1), Version(2)) << "all but the hint";
  there.clear();
  auto passed = pass();
  ASSERT_TRUE(passed.ok()) << passed.error().message;
  EXPECT_EQ(passed->position.version, Version(2));
}

TEST_F(MirrorPassTest, ABundleThatRottedHereIsNotPutThere) {
  origin.next();
  const BundleId id = first_bundle(Version(1));
  const auto stored = origin.find(id);
  ASSERT_TRUE(stored->file->has(ChunkIndex(0)));
  const Bytes rot(16, std::byte{0x5a});
  ASSERT_TRUE(std::const_pointer_cast<BundleFile>(std::shared_ptr<const BundleFile>(stored->file))->write(0, rot).ok());
  auto passed = pass();
  ASSERT_FALSE(passed.ok());
  EXPECT_EQ(passed.error().code, ErrorCode::integrity);
  EXPECT_EQ(store->size(names.bundle(id)).error().code, ErrorCode::not_found);
}

TEST_F(MirrorPassTest, NonsenseInTheMirrorIsWrittenAnew) {
  origin.next();
  const std::string nonsense(300, 'x');
  ASSERT_TRUE(store->put(names.records(), body_of(as_bytes(nonsense))).ok());
  ASSERT_TRUE(store->put(names.newest(), body_of(as_bytes("p2pw-mirror-1 no no no\n"))).ok());
  auto passed = pass();
  ASSERT_TRUE(passed.ok()) << passed.error().message;
  ChannelLog reader(origin.channel, origin.key.verifying_key());
  EXPECT_TRUE(read_lineage(reader));
}

// Whoever writes there may claim what he likes: another's records do not make this node delete anything.
TEST_F(MirrorPassTest, OnlyWhatThePublisherSignedIsRemoved) {
  SignedSeries stranger(8);
  stranger.next();
  const MirrorNames theirs(stranger.channel, stranger.key.verifying_key().id);
  MirrorJob job = mirror_job(stranger.log, SignedSeries::kNow, [&](const BundleId& id) { return stranger.find(id); });
  std::set<BundleId> known;
  ASSERT_TRUE(run_pass(*store, job, known).ok());
  auto forged = store->get(theirs.records(), kMaxMirrorRecords);
  ASSERT_TRUE(forged.ok());
  ASSERT_TRUE(store->put(names.records(), body_of(*forged)).ok());
  for (int i = 0; i < 3; ++i) origin.next();
  origin.anchor_again();
  auto passed = pass();
  ASSERT_TRUE(passed.ok()) << passed.error().message;
  EXPECT_EQ(passed->removed, 0u);
}

TEST_F(MirrorPassTest, ALookAtEverythingPutsBackWhatHasGone) {
  origin.next();
  ASSERT_TRUE(pass().ok());
  ASSERT_TRUE(store->remove(names.bundle(first_bundle(Version(1)))).ok());
  there.clear();
  EXPECT_EQ(pass()->objects, 0u) << "the hint says that all is well";
  auto passed = pass(true);
  ASSERT_TRUE(passed.ok()) << passed.error().message;
  EXPECT_EQ(passed->objects, 2u);
}

}  // namespace
}  // namespace p2pw
