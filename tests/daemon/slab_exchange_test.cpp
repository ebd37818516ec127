// Which bundles a node asks for: what SlabExchange decides, over real slots and a real Rebuilder in memory.
// The neighbours are played by the test.
#include "daemon/core/slab_exchange.h"

#include <gtest/gtest.h>

#include "daemon/core/activation.h"
#include "tests/support/memory_file_system.h"
#include "tests/support/signed_series.h"
#include "tests/support/test_loop.h"

namespace p2pw {
namespace {

using namespace std::chrono_literals;
using testing::MemoryFileSystem;
using testing::SignedSeries;
using testing::TempDir;
using testing::TestLoop;

class SlabExchangeTest : public ::testing::Test, public RebuildEvents, public ActivationEvents {
 protected:
  SlabExchangeTest() {
    (void)files.make_directories("/state/c");
    slots = std::move(*SlotPair::open(files, {"/state/c", {}, {}}));
    activation = std::make_unique<Activation>(*slots, *pool, nullptr, *this, ActivationOptions{});
    rebuilder = std::make_unique<Rebuilder>(*slots, *pool, *this);
    SlabExchange::World world;
    world.neighbours = [this] { return neighbours; };
    world.alone = [this] { return neighbours.empty(); };
    world.links = [this] { return neighbours; };
    world.send = [this](const NodeKey& to, const wire::LinkMessage& message, SharedBytes, bool) {
      sent.emplace_back(to, message);
      return true;
    };
    world.name = [](const NodeKey&) { return std::string("neighbour"); };
    world.event = [this](const std::string& event, const std::string& detail) {
      events.push_back(event + ": " + detail);
    };
    world.keeps_above = [] { return Version(); };
    exchange = std::make_unique<SlabExchange>(log, *slots, *rebuilder, *pool, std::move(world));
    std::filesystem::create_directories(dir / "bundles");
  }
  ~SlabExchangeTest() override { pool = nullptr; }  // first: nothing is posted any more

  static NodeKey peer(std::uint8_t number) {
    NodeKey key;
    key.data.fill(number);
    return key;
  }

  // Records of these versions reach this node, and its Rebuilder knows the runs; without metas and chunks.
  void hear(Version from, Version to) {
    for (const VerifiedRecord* record : series.log.all()) {
      const OpenRecord* open = record->as<OpenRecord>();
      const SealRecord* seal = record->as<SealRecord>();
      const BundleRecord* bundle = record->as<BundleRecord>();
      const Version version = open     ? open->version
                              : seal   ? seal->version
                              : bundle ? bundle->version
                                       : Version();
      const bool below = seal != nullptr && version.next() == from;  // closes the chain, as in a mirror
      if (!below && (version < from || version > to)) continue;
      ASSERT_NE(log.receive(record->envelope(), SignedSeries::kNow).kind, LogAnswer::Kind::refused);
    }
    for (const LogEvent& event : log.take_events()) {
      const p2pw::Run* run = log.run(event.run);
      if (event.kind == LogEvent::Kind::opened)
        rebuilder->open_run(run->id(), run->open(), series.sealers.at(run->id()));
      if (event.kind == LogEvent::Kind::sealed)
        rebuilder->seal_run(run->id(), *run->seal(), run->seal_hash());
    }
  }
  // The run's bundles come, up to `chunks` of each.
  void give(const p2pw::Run& run, std::uint32_t chunks = ~0u) {
    for (const auto& [index, record] : run.bundles()) {
      const BundleId id = id_as<BundleId>(record.id());
      auto from = series.find(id);
      auto opened = bundles.open(id, *record.as<BundleRecord>(), from->encoded_meta);
      ASSERT_TRUE(opened.ok()) << opened.error().message;
      rebuilder->add_bundle(id, (*opened)->record, (*opened)->meta, (*opened)->file);
      for (std::uint32_t i = 0; i < std::min(chunks, from->file->chunk_count()); ++i) {
        ASSERT_TRUE((*opened)->file->put(ChunkIndex(i), *from->file->checked_chunk(ChunkIndex(i))).ok());
        rebuilder->chunk_arrived(id, ChunkIndex(i));
      }
    }
  }
  const p2pw::Run& run_of(Version version) const { return *log.version(version); }
  const p2pw::Run& anchor_again() const { return *log.anchors().back(); }
  bool wants(const p2pw::Run& run) const { return exchange->wants(run); }

  bool until_active(Version version) {
    return loop.run_until(
        [&] { return slots->active() != nullptr && slots->active()->version() == version; });
  }
  bool until_both_hold(Version version) {
    return loop.run_until([&] {
      return slots->standby()->phase() == Slot::Phase::whole && slots->standby()->version() == version &&
             slots->active() != nullptr && slots->active()->version() == version;
    });
  }
  // The daemon's ticks.
  void pass(std::chrono::milliseconds time) {
    for (const SteadyTime end = now + time; now < end;) {
      now += 500ms;
      exchange->tick(now);
    }
  }
  bool said(const std::string& what) const {
    return std::any_of(events.begin(), events.end(), [&](auto& e) { return e.find(what) != e.npos; });
  }

  // A neighbour whose active slot holds the version answers what this node has asked.
  void answer_as_holder_of(Version version) {
    const auto& held = series.at(version);
    for (auto [to, question] : std::exchange(sent, {})) {
      wire::LinkMessage answer;
      Bytes payload;
      if (question.has_table_wanted()) {
        auto* table = answer.mutable_table();
        table->set_version(version.value());
        table->set_seal(std::string(log.version(version)->seal_hash().text()));
        table->set_byte_slabs(static_cast<std::uint32_t>(held.table.bytes.digests.size()));
        for (const auto* digests : {&held.table.bytes.digests, &held.table.tensors}) {
          for (const Digest& digest : *digests)
            payload.insert(payload.end(), digest.view().begin(), digest.view().end());
        }
        exchange->message(to, answer, payload, now);
      }
      for (std::uint32_t raw : question.slabs_wanted().slabs()) {
        const SlabId slab(raw);
        if (!slab.is_bytes()) continue;
        answer.mutable_slab()->set_version(version.value());
        answer.mutable_slab()->set_slab(raw);
        payload = held.byte_slabs.at(slab.index());
        exchange->message(to, answer, payload, now);
      }
    }
  }

  void version_staged(const StagedVersion& version) override {
    exchange->staged();
    activation->activate(version, {});
  }
  void standby_caught_up(Version) override {}
  void slab_lost(const LostSlab&) override {}
  void bundle_damaged(const BundleId&, FrameIndex, const Error&) override {}
  void run_failed(const RunId&, Version, const Error& error) override { ADD_FAILURE() << error.message; }
  void rebuild_blocked(const Error& error) override { ADD_FAILURE() << error.message; }
  void version_active(const StagedVersion&) override {}
  void activation_failed(const StagedVersion&, const Error& error) override {
    ADD_FAILURE() << error.message;
  }
  void standby_released() override { rebuilder->slots_changed(); }
  void engine_changed() override {}

  TempDir dir;
  TestLoop loop;
  MemoryFileSystem files{1};
  SignedSeries series{21};
  ChannelLog log{series.channel, series.key.verifying_key()};
  BundleStore bundles{dir / "bundles"};
  std::unique_ptr<WorkPool> pool = std::make_unique<WorkPool>(2, loop.executor());
  std::unique_ptr<SlotPair> slots;
  std::unique_ptr<Activation> activation;
  std::unique_ptr<Rebuilder> rebuilder;
  std::unique_ptr<SlabExchange> exchange;
  std::vector<NodeKey> neighbours;
  std::vector<std::pair<NodeKey, wire::LinkMessage>> sent;
  std::vector<std::string> events;
  SteadyTime now = SteadyTime{} + 1h;
};

// Its neighbours could give everything, but the little that it lacks of the anchor is cheaper.
TEST_F(SlabExchangeTest, AJoinerThatHasMostOfAnAnchorGetsTheRestOfIt) {
  for (int i = 0; i < 3; ++i) series.next();
  hear(Version(1), Version(3));
  const p2pw::Run& anchor = run_of(Version(1));
  std::size_t given = 0;
  for (const auto& [index, record] : anchor.bundles())
    given += series.find(id_as<BundleId>(record.id()))->file->chunk_count();
  ASSERT_GT(given, anchor.bundles().size()) << "the anchor must be of several chunks for this test";
  give(anchor, 1);
  neighbours = {peer(1)};
  for (int i = 0; i < 10 && !said("starts from version 3"); ++i) {
    pass(1s);
    answer_as_holder_of(Version(3));
  }
  ASSERT_TRUE(said("starts from version 3"));
  ASSERT_FALSE(rebuilder->progress().copying) << "the anchor's rest must be the cheaper way for this test";
  for (std::uint64_t v = 1; v <= 3; ++v) {
    EXPECT_TRUE(wants(run_of(Version(v)))) << v;
    if (wants(run_of(Version(v)))) give(run_of(Version(v)));
  }
  EXPECT_TRUE(until_active(Version(3)));
}

class EmptyRegionTest : public SlabExchangeTest {
 protected:
  // Versions 1 to 3, an anchor of version 3 besides its delta, and version 4.
  void publish() {
    for (int i = 0; i < 3; ++i) series.next();
    series.anchor_again();
    series.next();
  }
};

TEST_F(EmptyRegionTest, NothingIsDecidedWhileItLooksForNeighboursAndThenTheNewestAnchorIs) {
  publish();
  hear(Version(1), Version(4));
  const auto undecided = [&](const p2pw::Run& run) { return exchange->undecided_about(run); };
  EXPECT_TRUE(undecided(run_of(Version(1)))) << "though nothing has been looked at yet";
  pass(Join::kAlone);
  for (std::uint64_t v = 1; v <= 4; ++v) {
    EXPECT_FALSE(wants(run_of(Version(v)))) << v;
    EXPECT_TRUE(undecided(run_of(Version(v)))) << v;
  }
  EXPECT_FALSE(exchange->take_decision());
  pass(1s);
  EXPECT_TRUE(exchange->take_decision());
  EXPECT_FALSE(exchange->take_decision()) << "it is made once";
  for (std::uint64_t v = 1; v <= 3; ++v) {
    EXPECT_FALSE(wants(run_of(Version(v)))) << v;
    EXPECT_FALSE(undecided(run_of(Version(v)))) << v;
  }
  EXPECT_TRUE(wants(anchor_again()));
  EXPECT_TRUE(wants(run_of(Version(4))));
  give(anchor_again());
  give(run_of(Version(4)));
  EXPECT_TRUE(until_active(Version(4)));
}

// A link that comes up after the decision: its end would drop what is counted on.
TEST_F(EmptyRegionTest, WhoIsLinkedLaterHearsWhatIsCountedOnToo) {
  publish();
  hear(Version(1), Version(4));
  exchange->peer_up(peer(1));
  EXPECT_TRUE(sent.empty()) << "nothing is counted on yet";
  pass(2s);
  ASSERT_TRUE(said("takes an anchor"));
  sent.clear();
  exchange->peer_up(peer(2));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].first, peer(2));
  EXPECT_EQ(sent[0].second.lineage_pin().above(), 2u);  // the anchor of version 3 and what follows
}

// It is longer on its way than until the next one is made.
TEST_F(EmptyRegionTest, AnAnchorThatIsMadeMeanwhileDoesNotStopTheOneThatComes) {
  publish();
  hear(Version(1), Version(4));
  pass(2s);
  const p2pw::Run& first = anchor_again();
  ASSERT_TRUE(wants(first));
  give(first, 1);
  series.next();
  series.anchor_again();
  hear(Version(5), Version(5));
  const p2pw::Run& second = anchor_again();
  ASSERT_NE(first.id(), second.id());
  pass(1s);
  EXPECT_FALSE(wants(second));
  ASSERT_TRUE(wants(first));
  give(first);
  give(run_of(Version(4)));
  ASSERT_TRUE(wants(run_of(Version(5))));
  give(run_of(Version(5)));
  EXPECT_TRUE(until_active(Version(5)));
}

// Of versions whose seal has not come yet only the newest can be in flight.
TEST_F(EmptyRegionTest, WhatLacksItsSealBelowASealedVersionIsNotTakenForNews) {
  for (int i = 0; i < 2; ++i) series.next();
  for (const VerifiedRecord* record : series.log.all()) {
    const SealRecord* seal = record->as<SealRecord>();
    if (seal != nullptr && seal->version == Version(1)) continue;
    ASSERT_NE(log.receive(record->envelope(), SignedSeries::kNow).kind, LogAnswer::Kind::refused);
  }
  ASSERT_EQ(run_of(Version(1)).state(), RunState::open);
  ASSERT_EQ(log.highest_sealed(), Version(2));
  EXPECT_FALSE(wants(run_of(Version(1))));
  EXPECT_TRUE(exchange->undecided_about(run_of(Version(1))));
}

class LostDeltasTest : public SlabExchangeTest {
 protected:
  // Both slots hold version 1. The others have gone on to version 6; there is an anchor of version 5 outside
  // the chain.
  void fall_behind() {
    series.next();
    hear(Version(1), Version(1));
    give(run_of(Version(1)));
    ASSERT_TRUE(until_both_hold(Version(1)));
    for (int i = 0; i < 4; ++i) series.next();
    series.anchor_again();
    series.next();
  }
  void expect_comes_up_by_the_anchor() {
    EXPECT_TRUE(wants(anchor_again()));
    EXPECT_TRUE(wants(run_of(Version(6))));
    give(anchor_again());
    give(run_of(Version(6)));
    ASSERT_TRUE(until_active(Version(6)));
    // The slot that it leaves is filled from the other one: what nobody has is not waited for again.
    EXPECT_TRUE(until_both_hold(Version(6)));
    if (log.version(Version(2)) != nullptr) {
      EXPECT_FALSE(wants(run_of(Version(2))));
    }
  }
};

TEST_F(LostDeltasTest, DeltasThatNobodyGivesArePassedOverByANewerAnchor) {
  fall_behind();
  hear(Version(2), Version(6));
  pass(80s);
  EXPECT_TRUE(wants(run_of(Version(2)))) << "peers have some time to come up with them";
  EXPECT_FALSE(wants(anchor_again())) << "which is much more than the deltas";
  pass(20s);
  EXPECT_FALSE(wants(run_of(Version(2))));
  EXPECT_TRUE(said("takes the anchor of version 5 and 1 deltas"));
  expect_comes_up_by_the_anchor();
}

TEST_F(LostDeltasTest, DeltasWhoseRecordsAreGoneArePassedOverToo) {
  fall_behind();
  hear(Version(5), Version(6));  // as from a mirror that has removed what is older
  EXPECT_EQ(log.highest_sealed(), Version(6));
  pass(100s);
  expect_comes_up_by_the_anchor();
}

TEST_F(LostDeltasTest, WhileDeltasComeTheyAreWaitedFor) {
  fall_behind();
  hear(Version(2), Version(6));
  for (std::uint64_t v = 2; v <= 6; ++v) {
    pass(80s);
    EXPECT_FALSE(wants(anchor_again()));
    give(run_of(Version(v)));
  }
  EXPECT_TRUE(until_active(Version(6)));
}

TEST_F(LostDeltasTest, WhoComesLaterIsAskedForTheDeltasFirst) {
  fall_behind();
  hear(Version(2), Version(6));
  pass(100s);
  ASSERT_TRUE(wants(anchor_again()));
  neighbours = {peer(1)};
  pass(1s);
  EXPECT_TRUE(wants(run_of(Version(2))));
  EXPECT_FALSE(wants(anchor_again()));
  for (std::uint64_t v = 2; v <= 6; ++v) give(run_of(Version(v)));
  EXPECT_TRUE(until_active(Version(6)));
}

TEST_F(LostDeltasTest, WhenTheAnchorDoesNotComeEitherTheDeltasAreAskedForAgain) {
  fall_behind();
  hear(Version(2), Version(6));
  pass(100s);
  ASSERT_TRUE(wants(anchor_again()));
  pass(90s);
  EXPECT_TRUE(wants(run_of(Version(2))));
  pass(90s);
  EXPECT_TRUE(wants(anchor_again()));
  expect_comes_up_by_the_anchor();
}

}  // namespace
}  // namespace p2pw
