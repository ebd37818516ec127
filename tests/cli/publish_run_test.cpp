// The whole publishing end of `p2pw seed` against the daemon's end of the protocol, played by the test.
#include "cli/publish_run.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <fstream>
#include <thread>

#include "chunker/diff.h"
#include "protocol/hash.h"
#include "protocol/publish.pb.h"
#include "tests/support/checkpoint.h"
#include "tests/support/temp_dir.h"

namespace p2pw {
namespace {

using std::chrono::seconds;

Channel channel() { return Channel::parse("policy").value(); }

// What a daemon hears in one publish, each record verified on arrival.
struct Heard {
  Error error;  // of the daemon's side of the connection; code failed + empty message = none
  std::vector<VerifiedRecord> records;
  std::vector<Bytes> bundles;
  std::vector<BundleMeta> metas;
  Salt salt;
  std::optional<SlabId> damaged;

  template <class T>
  const VerifiedRecord* first() const {
    for (const VerifiedRecord& record : records) {
      if (record.template as<T>() != nullptr) return &record;
    }
    return nullptr;
  }
};

class Daemon {
 public:
  Daemon(PublishClient end, VerifyingKey publisher, wire::PublishPinned pinned, FrameKey key)
      : end_(std::move(end)), verifier_(channel(), publisher), pinned_(std::move(pinned)), key_(std::move(key)) {}

  // Until the seed hangs up, abandons, or has been told that its version is staged.
  void play() {
    for (;;) {
      wire::PublishMessage message;
      Bytes payload;
      Status got = end_.receive(message, payload, seconds(60));
      if (!got) {
        heard.error = got.error();
        return;
      }
      if (!answer(message, std::move(payload))) return;
    }
  }
  Heard heard;

 private:
  bool answer(const wire::PublishMessage& message, Bytes payload) {
    wire::PublishMessage reply;
    if (message.has_open()) *reply.mutable_pinned() = pinned_;
    if (message.has_salt()) {
      heard.salt = *Salt::from(std::string_view(message.salt().salt()));
      reply.mutable_key()->set_frame_key(key_.raw().data(), key_.raw().size());
    }
    if (message.has_damaged()) heard.damaged = SlabId(message.damaged().slab());
    if (message.has_record() || message.has_bundle()) {
      const std::string& envelope = message.has_record() ? message.record().envelope() : message.bundle().envelope();
      auto record = verifier_.verify(as_bytes(envelope), WallTime{});
      EXPECT_TRUE(record.ok()) << record.error().message;
      if (!record) return false;
      heard.records.push_back(record.value());
      if (message.has_bundle()) take_bundle(message.bundle().meta(), std::move(payload), *record->as<BundleRecord>());
      if (record->as<AbandonRecord>() != nullptr) return false;
      if (record->as<SealRecord>() != nullptr) {
        reply.mutable_progress()->set_nodes_total(6);
        EXPECT_TRUE(end_.send(reply).ok());
        reply.mutable_staged()->set_version(pinned_.version());
      }
    }
    if (reply.body_case() != wire::PublishMessage::BODY_NOT_SET) {
      EXPECT_TRUE(end_.send(reply).ok());
    }
    return !reply.has_staged();
  }

  void take_bundle(const std::string& meta, Bytes payload, const BundleRecord& record) {
    auto decoded = BundleMeta::decode(as_bytes(meta), record);
    EXPECT_TRUE(decoded.ok()) << decoded.error().message;
    if (decoded) heard.metas.push_back(decoded.value());
    EXPECT_EQ(payload.size(), record.used_bytes);
    for (std::uint32_t i = 0; i < record.chunk_count() && decoded; ++i) {
      ByteView chunk = ByteView(payload).subspan(std::uint64_t(i) * record.chunk_bytes, record.chunk_used(ChunkIndex(i)));
      EXPECT_EQ(chunk_root(chunk, record.chunk_bytes), decoded->chunk_roots.at(i));
    }
    heard.bundles.push_back(std::move(payload));
  }

  PublishClient end_;
  RecordVerifier verifier_;
  wire::PublishPinned pinned_;
  FrameKey key_;
};

class PublishRunTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SCOPED_TRACE(::testing::Message() << "seed " << seed_);
    testing::write_small_checkpoint(dir_ / "old", random_);
    std::filesystem::copy(dir_ / "old", dir_ / "new", std::filesystem::copy_options::recursive);
    testing::change_weights(dir_ / "new", random_, 0.02);
    pinned_.set_version(1);
    pinned_.set_previous_seal(std::string(32, '\0'));
    pinned_.set_secret_id(std::string(8, 's'));
    request_.channel = channel();
    request_.directory = dir_ / "new";
  }

  void pin_parent() {
    Layout layout = Layout::scan(dir_ / "old").value();
    SlabDigests digests = digest_checkpoint({dir_ / "old", &layout}, {}).value();
    pinned_.set_version(2);
    pinned_.set_parent(1);
    pinned_.set_parent_slot(dir_ / "old");
    Sha256 table = digests.table_hash(layout.hash());
    pinned_.set_parent_table(table.data.data(), table.data.size());
    pinned_.set_previous_seal(std::string(32, 'p'));
    pinned_.set_parent_byte_slabs(static_cast<std::uint32_t>(digests.byte_slabs.size()));
    for (const auto* list : {&digests.byte_slabs, &digests.tensor_slabs}) {
      for (const Digest& digest : *list) pinned_.mutable_parent_digests()->append(digest.text());
    }
  }

  Result<PublishResult> publish(std::function<bool()> stop = {}) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    Daemon daemon(PublishClient::adopt(ends[1]), key_.verifying_key(), pinned_, frame_key_);
    std::thread thread([&] { daemon.play(); });
    auto result = [&]() -> Result<PublishResult> {
      PublishClient client = PublishClient::adopt(ends[0], stop);
      PublishRun run(client, key_, request_, stop, {});
      return run.run(Layout::scan(request_.directory).value());
    }();
    thread.join();
    heard_ = std::move(daemon.heard);
    return result;
  }

  void expect_frames_open(Kind kind, Version version, Version parent) {
    FrameSealer sealer(frame_key_, {channel(), version, parent, kind, heard_.salt});
    for (std::uint32_t b = 0; b < heard_.bundles.size(); ++b) {
      for (std::uint32_t f = 0; f < heard_.metas[b].frames.size(); ++f) {
        const FrameEntry& entry = heard_.metas[b].frames[f];
        Bytes plain;
        EXPECT_TRUE(sealer.open(BundleIndex(b), FrameIndex(f), entry.slab,
                                ByteView(heard_.bundles[b]).subspan(entry.offset, entry.length), plain).ok());
      }
    }
  }

  void expect_seal_matches(const PublishResult& result) {
    Layout layout = Layout::scan(request_.directory).value();
    SlabDigests digests = digest_checkpoint({request_.directory, &layout}, {}).value();
    const VerifiedRecord* open = heard_.first<OpenRecord>();
    const VerifiedRecord* sealed = heard_.first<SealRecord>();
    ASSERT_TRUE(open && sealed);
    const SealRecord& seal = *sealed->as<SealRecord>();
    EXPECT_EQ(seal.run, id_as<RunId>(open->id()));
    EXPECT_EQ(seal.table_hash, digests.table_hash(layout.hash()));
    EXPECT_EQ(seal.bundles, heard_.bundles.size());
    Bytes ids;
    std::uint64_t bytes = 0;
    for (const VerifiedRecord& record : heard_.records) {
      if (const BundleRecord* bundle = record.as<BundleRecord>()) {
        EXPECT_EQ(bundle->run, seal.run);
        ids.insert(ids.end(), record.id().view().begin(), record.id().view().end());
        bytes += bundle->used_bytes + bundle->meta_bytes;
      }
      if (record.as<DelegateRecord>() == nullptr && &record != sealed) bytes += record.envelope().size();
    }
    EXPECT_EQ(seal.bundles_hash, sha256(ids));
    EXPECT_EQ(seal.delta_bytes, bytes);
    EXPECT_EQ(result.delta_bytes, bytes + sealed->envelope().size());
  }

  const std::uint64_t seed_ = testing::fresh_seed();
  std::mt19937_64 random_{seed_};
  testing::TempDir dir_;
  SigningKey key_ = SigningKey::generate();
  FrameKey frame_key_ = *FrameKey::from(Bytes(32, std::byte{9}));
  wire::PublishPinned pinned_;
  PublishRequest request_;
  Heard heard_;
};

TEST_F(PublishRunTest, TheFirstVersionIsAnAnchor) {
  request_.step = -5;
  auto result = publish();
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->kind, Kind::anchor);
  EXPECT_EQ(result->version, Version(1));
  const OpenRecord& open = *heard_.first<OpenRecord>()->as<OpenRecord>();
  EXPECT_EQ(open.kind, Kind::anchor);
  EXPECT_EQ(open.parent, Version());
  EXPECT_EQ(open.salt, heard_.salt);
  EXPECT_EQ(open.step, -5);
  EXPECT_EQ(open.layout_hash, Layout::scan(dir_ / "new")->hash());
  expect_frames_open(Kind::anchor, Version(1), Version());
  expect_seal_matches(*result);
}

TEST_F(PublishRunTest, ADeltaLeadsFromThePinnedSlot) {
  pin_parent();
  request_.kind = Kind::delta;
  auto result = publish();
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->parent, Version(1));
  const OpenRecord& open = *heard_.first<OpenRecord>()->as<OpenRecord>();
  EXPECT_EQ(open.parent, Version(1));
  EXPECT_EQ(open.parent_table.text(), pinned_.parent_table());
  EXPECT_EQ(open.previous_seal.text(), pinned_.previous_seal());
  EXPECT_GT(result->changed_elements, 0u);
  EXPECT_LT(result->changed_elements, result->total_elements);
  expect_frames_open(Kind::delta, Version(2), Version(1));
  expect_seal_matches(*result);
}

TEST_F(PublishRunTest, AnUnchangedCheckpointIsAnEmptyDelta) {
  pin_parent();
  request_.directory = dir_ / "old";
  request_.kind = Kind::delta;
  auto result = publish();
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->bundles, 0u);
  EXPECT_EQ(result->changed_elements, 0u);
  EXPECT_EQ(result->bits_per_changed_element(), 0);
  expect_seal_matches(*result);
}

TEST_F(PublishRunTest, TheDelegateIsRenewedFirst) {
  SigningKey online = SigningKey::generate();
  request_.online_key = online.verifying_key();
  auto result = publish();
  ASSERT_TRUE(result.ok()) << result.error().message;
  ASSERT_TRUE(heard_.records.at(0).as<DelegateRecord>());
  EXPECT_EQ(heard_.records[0].as<DelegateRecord>()->key, online.verifying_key());
  EXPECT_TRUE(heard_.records.at(1).as<OpenRecord>());
  expect_seal_matches(*result);
}

TEST_F(PublishRunTest, ControlCAbandonsTheVersion) {
  int asked = 0;
  auto result = publish([&] { return ++asked > 6; });
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::interrupted);
  EXPECT_EQ(heard_.first<SealRecord>(), nullptr);
  if (const VerifiedRecord* open = heard_.first<OpenRecord>()) {
    ASSERT_TRUE(heard_.first<AbandonRecord>());
    EXPECT_EQ(heard_.first<AbandonRecord>()->as<AbandonRecord>()->run, id_as<RunId>(open->id()));
  }
}

TEST_F(PublishRunTest, AParentThatIsNotWhatTheTableSaysIsAnErrorAndAbandons) {
  pin_parent();
  request_.kind = Kind::delta;
  request_.directory = dir_ / "old";
  testing::change_weights(dir_ / "old", random_, 0.1);
  auto result = publish();
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(exit_code_of(result.error().code), 4) << result.error().message;
  EXPECT_TRUE(heard_.first<AbandonRecord>());
  EXPECT_FALSE(heard_.first<SealRecord>());
}

// One byte of a slab that the new version changes: a frame made from it would decode on this machine only.
TEST_F(PublishRunTest, ARottenByteInAChangedSlabOfThePinnedSlotEndsItBeforeAnythingOfThatIsSigned) {
  pin_parent();
  request_.kind = Kind::delta;
  const Layout layout = Layout::scan(dir_ / "old").value();
  const Layout now = Layout::scan(dir_ / "new").value();
  const SlabDigests before = digest_checkpoint({dir_ / "old", &layout}, {}).value();
  const SlabDigests after = digest_checkpoint({dir_ / "new", &now}, {}).value();
  std::uint32_t changed = 0;
  while (before.tensor_slabs[changed] == after.tensor_slabs[changed]) ++changed;
  const Slab& slab = layout.tensor_slabs()[changed];
  {
    std::fstream file(dir_ / "old" / layout.files()[slab.file].path,
                      std::ios::in | std::ios::out | std::ios::binary);
    const auto at = static_cast<std::streamoff>(slab.offset + slab.length / 2);
    file.seekg(at);
    const char flipped = static_cast<char>(file.get() ^ 0x10);
    file.seekp(at);
    file.put(flipped);
  }
  auto result = publish();
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::integrity);
  const std::string& said = result.error().message;
  EXPECT_NE(said.find("(tensor slab " + std::to_string(changed) + ")"), said.npos) << said;
  EXPECT_NE(said.find("seed again"), said.npos) << said;
  ASSERT_TRUE(heard_.damaged) << "the daemon is to mend it";
  EXPECT_EQ(*heard_.damaged, SlabId::tensor(changed));
  EXPECT_FALSE(heard_.first<SealRecord>());
  EXPECT_TRUE(heard_.first<AbandonRecord>());
  for (const BundleMeta& meta : heard_.metas) {
    for (const FrameEntry& frame : meta.frames)
      EXPECT_NE(frame.slab, SlabId::tensor(changed)) << "a frame made from it went out";
  }
}

TEST_F(PublishRunTest, ADeltaNeedsAParent) {
  request_.kind = Kind::delta;
  auto result = publish();
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::usage);
  EXPECT_TRUE(heard_.records.empty()) << "nothing was signed";
}

TEST_F(PublishRunTest, WhatTheDaemonRefusesIsPassedOn) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  PublishClient client = PublishClient::adopt(ends[0]), daemon = PublishClient::adopt(ends[1]);
  wire::PublishMessage refusal;
  refusal.mutable_error()->set_code("busy");
  refusal.mutable_error()->set_message("another seed publishes on policy");
  ASSERT_TRUE(daemon.send(refusal).ok());
  PublishRun run(client, key_, request_, {}, {});
  auto result = run.run(Layout::scan(request_.directory).value());
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::busy);
}

TEST_F(PublishRunTest, AWrongAnswerIsMalformed) {
  pinned_.set_previous_seal("short");
  EXPECT_EQ(publish().error().code, ErrorCode::malformed);
  pinned_.set_previous_seal(std::string(32, '\0'));
  pinned_.set_parent(1);
  pinned_.set_parent_table(std::string(32, 't'));
  pinned_.set_parent_digests("12345");
  EXPECT_EQ(publish().error().code, ErrorCode::malformed);
}

}  // namespace
}  // namespace p2pw
