#include "daemon/mirror/mirror_reader.h"

#include <gtest/gtest.h>

#include <fstream>

#include "daemon/mirror/mirror_writer.h"
#include "tests/support/signed_series.h"
#include "tests/support/test_loop.h"

namespace p2pw {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::SignedSeries;
using testing::TempDir;
using testing::TestLoop;

// A node without peers: wants whatever its log names, and asks nobody but the mirror.
class LonelyNode : public MirrorHost {
 public:
  explicit LonelyNode(const SignedSeries& origin)
      : log_(origin.channel, origin.key.verifying_key()), bundles_(dir_ / "bundles") {
    fs::create_directories(dir_ / "bundles");
  }
  const ChannelLog& log() const override { return log_; }
  NodeKey self() const override { return {}; }
  SteadyTime now() const override { return clock; }
  WallTime wall_now() const override { return SignedSeries::kNow; }
  std::shared_ptr<const StoredBundle> stored(const BundleId& bundle) const override { return bundles_.find(bundle); }
  std::vector<MetaWanted> metas_wanted() const override {
    std::vector<MetaWanted> wanted;
    each_bundle([&](const BundleId& id, const BundleRecord& record) {
      if (!bundles_.find(id)) wanted.push_back({id, record, SteadyTime{}, 0});
    });
    return wanted;
  }
  std::vector<ChunksWanted> chunks_wanted() const override {
    std::vector<ChunksWanted> wanted;
    each_bundle([&](const BundleId& id, const BundleRecord& record) {
      auto stored = bundles_.find(id);
      if (stored && !stored->file->complete())
        wanted.push_back({stored, ChunkSet(record.chunk_count(), true), SteadyTime{}, {}});
    });
    return wanted;
  }
  std::vector<SlabWanted> slabs_wanted() const override { return slabs; }
  void slab_found(std::uint32_t slab, SlabFound found) override { found_slabs[slab] = std::move(found); }
  void draw(const BundleId&) override {}
  void claim_quiet(const MirrorPatience&, const std::function<bool(const BundleId&)>&) override {}
  bool hears_trainer() const override { return hears; }
  std::size_t place() const override { return line; }
  std::size_t writing_place() const override { return line; }
  Status take_record(ByteView envelope) override {
    auto answer = log_.receive(envelope, SignedSeries::kNow);
    return answer.kind == LogAnswer::Kind::refused ? Status(*answer.error) : Status();
  }
  Status take_meta(const BundleId& bundle, Bytes meta) override {
    Status status;
    each_bundle([&](const BundleId& id, const BundleRecord& record) {
      if (id != bundle) return;
      auto opened = bundles_.open(id, record, meta);
      if (!opened) status = opened.error();
    });
    return status;
  }
  void chunk_put(const BundleId&, ChunkIndex) override { ++chunks; }
  void event(const std::string& event, Version, const std::string& detail) override { events.emplace_back(event, detail); }

  bool whole() const {
    bool all = log_.highest_sealed().value() != 0;
    each_bundle([&](const BundleId& id, const BundleRecord&) {
      auto stored = bundles_.find(id);
      all = all && stored && stored->file->complete();
    });
    return all;
  }
  std::string said(const std::string& event) const {
    for (auto& [name, detail] : events) {
      if (name == event) return detail;
    }
    return "";
  }

  SteadyTime clock = SteadyTime{} + 1h;
  bool hears = false;
  std::size_t line = 0, chunks = 0;
  std::vector<SlabWanted> slabs;
  std::map<std::uint32_t, SlabFound> found_slabs;
  std::vector<std::pair<std::string, std::string>> events;

 private:
  void each_bundle(const std::function<void(const BundleId&, const BundleRecord&)>& call) const {
    auto lineage = log_.lineage(log_.highest_sealed());
    for (const RunId& id : lineage.value_or(std::vector<RunId>())) {
      for (auto& [index, record] : log_.run(id)->bundles()) call(id_as<BundleId>(record.id()), *record.as<BundleRecord>());
    }
  }
  TempDir dir_;
  ChannelLog log_;
  BundleStore bundles_;
};

class MirrorReaderTest : public ::testing::Test {
 protected:
  MirrorReaderTest() {
    for (int i = 0; i < 3; ++i) origin.next();
    fill();
  }
  void fill() {
    auto store = open_folder_store(dir.path());
    std::set<BundleId> there;
    MirrorJob job = mirror_job(origin.log, SignedSeries::kNow, [this](const BundleId& id) { return origin.find(id); });
    job.check_all = true;
    auto passed = run_pass(*store, job, there);
    ASSERT_TRUE(passed.ok()) << passed.error().message;
  }
  std::unique_ptr<MirrorAccess> access() {
    return std::make_unique<MirrorAccess>(
        open_folder_store(dir.path()), loop.executor(), [this] { return std::pair(node.clock, SignedSeries::kNow); },
        [this](const std::string& event, const std::string& detail) { node.events.emplace_back(event, detail); });
  }
  // Time passes in steps of the daemon's ticks while the mirror's threads work.
  bool until(const std::function<bool()>& done, std::chrono::seconds most = 200s) {
    const SteadyTime end = node.clock + most;
    while (!done() && node.clock < end) {
      node.clock += 100ms;
      reader->tick();
      bool settled = false;
      mirror->run([](MirrorStore& store) { return store.size("nothing"); }, [&](auto) { settled = true; });
      if (!loop.run_until([&] { return settled; })) return false;
    }
    return done();
  }
  fs::path object(const std::string& name) const { return dir.path() / name; }
  BundleId first_bundle(Version version) const {
    return id_as<BundleId>(origin.log.version(version)->bundles().begin()->second.id());
  }
  void overwrite(const fs::path& path, std::uint64_t offset, std::string_view text) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    ASSERT_TRUE(file.is_open()) << path;
    file.seekp(static_cast<std::streamoff>(offset));
    file.write(text.data(), static_cast<std::streamsize>(text.size()));
  }

  TempDir dir;
  SignedSeries origin{11};
  MirrorNames names{origin.channel, origin.key.verifying_key().id};
  TestLoop loop;
  LonelyNode node{origin};
  MirrorPatience patience;
  std::unique_ptr<MirrorAccess> mirror = access();
  std::unique_ptr<MirrorReader> reader = std::make_unique<MirrorReader>(node, *mirror, patience);
};

TEST_F(MirrorReaderTest, ANodeThatHasNothingGetsEverythingOnce) {
  ASSERT_TRUE(until([&] { return node.whole(); }));
  EXPECT_EQ(node.log().highest_sealed(), Version(3));
  // The last of it is counted a moment after it was written.
  std::uint64_t used = 0;
  for (std::uint64_t v = 1; v <= 3; ++v) {
    for (auto& [index, record] : origin.log.version(Version(v))->bundles()) used += record.as<BundleRecord>()->used_bytes;
  }
  EXPECT_TRUE(until([&] { return mirror->stats().chunk_bytes_read >= used; }));
  EXPECT_EQ(mirror->stats().chunk_bytes_read, used);
  EXPECT_EQ(mirror->stats().refused, 0u);
  EXPECT_TRUE(mirror->stats().problem.empty());
}

TEST_F(MirrorReaderTest, PeersComeFirst) {
  EXPECT_FALSE(until([&] { return node.log().highest_sealed().value() != 0; }, 4s)) << "patience is five seconds";
  node.line = 50;  // far back in the region's line
  EXPECT_FALSE(until([&] { return node.log().highest_sealed().value() != 0; }, 90s));
  node.line = 0;
  EXPECT_TRUE(until([&] { return node.whole(); }));
}

TEST_F(MirrorReaderTest, NewsIsLookedForOnlyWhileTheTrainerIsNotHeard) {
  ASSERT_TRUE(until([&] { return node.whole(); }));
  origin.next();
  fill();
  node.hears = true;
  EXPECT_FALSE(until([&] { return node.log().highest_sealed() == Version(4); }, 120s));
  node.hears = false;
  EXPECT_TRUE(until([&] { return node.log().highest_sealed() == Version(4) && node.whole(); }));
}

TEST_F(MirrorReaderTest, AChunkThatIsNotWhatWasSignedIsNamedAndLeftAlone) {
  const BundleId bad = first_bundle(Version(2));
  overwrite(object(names.bundle(bad)), 100, "forged");
  EXPECT_FALSE(until([&] { return node.whole(); }, 60s));
  EXPECT_NE(node.said("mirror-wrong").find(bad.hex()), std::string::npos);
  EXPECT_EQ(mirror->stats().refused, 1u) << "it is not asked for again and again";
  EXPECT_TRUE(mirror->stats().problem.empty()) << "one object says nothing about the rest";
  // All else is there, and a good one is taken when it is time to look again.
  fs::remove(object(names.bundle(bad)));
  fill();
  EXPECT_TRUE(until([&] { return node.whole(); }, 700s));
}

TEST_F(MirrorReaderTest, AMetaThatIsNotWhatWasSignedIsNamed) {
  const BundleId bad = first_bundle(Version(1));
  overwrite(object(names.meta(bad)), 10, "forged");
  EXPECT_FALSE(until([&] { return node.whole(); }, 30s));
  EXPECT_NE(node.said("mirror-wrong").find(bad.hex()), std::string::npos);
}

TEST_F(MirrorReaderTest, ObjectsOfTheWrongSizeAreNotRead) {
  const BundleId bad = first_bundle(Version(1));
  fs::resize_file(object(names.meta(bad)), 1u << 30);  // a hole; a reader that took it all would need the memory
  EXPECT_FALSE(until([&] { return node.whole(); }, 30s));
  EXPECT_NE(node.said("mirror-wrong").find(bad.hex()), std::string::npos);
  EXPECT_LT(mirror->stats().other_bytes_read, 1u << 20);
}

TEST_F(MirrorReaderTest, AnObjectThatIsMissingIsSaidAndTakenWhenItComes) {
  const BundleId gone = first_bundle(Version(3));
  fs::rename(object(names.bundle(gone)), object("aside"));
  EXPECT_FALSE(until([&] { return node.whole(); }, 30s));
  EXPECT_NE(node.said("mirror-lacks").find(gone.hex()), std::string::npos);
  fs::rename(object("aside"), object(names.bundle(gone)));
  EXPECT_TRUE(until([&] { return node.whole(); }));
}

TEST_F(MirrorReaderTest, ForgedRecordsAreRefusedAndNoMoreOfThemRead) {
  SignedSeries forger(12);
  forger.next();
  std::vector<Bytes> records;
  for (const VerifiedRecord* record : forger.log.all()) records.push_back(record->envelope());
  const Bytes encoded = encode_records(records);
  auto store = open_folder_store(dir.path());
  ASSERT_TRUE(store->put(names.records(), body_of(encoded)).ok());
  EXPECT_FALSE(until([&] { return node.log().highest_sealed().value() != 0; }, 60s));
  EXPECT_FALSE(node.said("mirror-wrong").empty());
  EXPECT_EQ(mirror->stats().refused, 1u);
}

TEST_F(MirrorReaderTest, RecordsThatAreNoneAreRefused) {
  auto store = open_folder_store(dir.path());
  const std::string nonsense(1000, '\xff');
  ASSERT_TRUE(store->put(names.records(), body_of(as_bytes(nonsense))).ok());
  EXPECT_FALSE(until([&] { return node.log().highest_sealed().value() != 0; }, 20s));
  EXPECT_NE(node.said("mirror-wrong").find("records"), std::string::npos);
}

TEST_F(MirrorReaderTest, AHintThatLiesCostsNothingButOneLook) {
  ASSERT_TRUE(until([&] { return node.whole(); }));
  auto store = open_folder_store(dir.path());
  const std::string lie = MirrorPosition{Version(1000), Version(1000), Version()}.text();
  ASSERT_TRUE(store->put(names.newest(), body_of(as_bytes(lie))).ok());
  const std::uint64_t records = *store->size(names.records()), before = mirror->stats().other_bytes_read;
  EXPECT_FALSE(until([&] { return node.log().highest_sealed() > Version(3); }, 300s));
  EXPECT_EQ(mirror->stats().other_bytes_read, before + records);
  EXPECT_TRUE(node.whole());
}

TEST_F(MirrorReaderTest, AMirrorThatIsGoneIsSaidOnceAndUsedWhenItIsBack) {
  const fs::path aside = dir.path().string() + "-aside";
  fs::rename(dir.path(), aside);
  EXPECT_FALSE(until([&] { return node.whole(); }, 60s));
  std::size_t said = 0;
  for (auto& [event, detail] : node.events) said += event == "mirror-failed";
  EXPECT_EQ(said, 1u);
  EXPECT_LT(mirror->stats().failures["unreachable"], 600u + 20u) << "until() itself has asked 600 times";
  fs::rename(aside, dir.path());
  EXPECT_TRUE(until([&] { return node.whole(); }));
  EXPECT_FALSE(node.said("mirror-back").empty());
}

// The writer's side of the same node.
TEST_F(MirrorReaderTest, AWriterFurtherBackFindsThatNothingIsLeftToDo) {
  ASSERT_TRUE(until([&] { return node.whole(); }));
  node.line = 3;
  MirrorWriter writer(node, *mirror, patience);
  auto tick = [&] {
    node.clock += 1s;
    writer.tick();
    bool settled = false;
    mirror->run([](MirrorStore& store) { return store.size("nothing"); }, [&](auto) { settled = true; });
    return loop.run_until([&] { return settled; });
  };
  for (int i = 0; i < 20'000 && writer.version().value() == 0; ++i) ASSERT_TRUE(tick());
  EXPECT_EQ(writer.version(), Version(3));
  EXPECT_EQ(mirror->stats().bytes_written, 0u);
  EXPECT_FALSE(writer.need()) << "nothing is kept for the mirror's sake";
}

}  // namespace
}  // namespace p2pw
