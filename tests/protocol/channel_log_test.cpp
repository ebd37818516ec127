#include "protocol/channel_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "protocol/limits.h"
#include "tests/protocol/make_records.h"

namespace p2pw {
namespace {

using namespace p2pw::testing;
using namespace std::chrono_literals;
using Took = LogAnswer::Kind;
using Event = LogEvent::Kind;

// The records of one run, as its publisher signed them.
struct Signed {
  Bytes open;
  std::vector<Bytes> bundles;
  Bytes seal;
  RunId run;
  SealHash seal_hash;
};

class Publisher {
 public:
  Signed run(OpenRecord open, std::size_t bundles, const Sha256& table) const {
    Signed out;
    out.open = must_sign(key, open);
    out.run = id_as<RunId>(record_id(out.open).value());
    std::vector<BundleId> ids;
    for (std::size_t i = 0; i < bundles; ++i) {
      out.bundles.push_back(
          must_sign(key, bundle_of(out.run, open.version.value(), static_cast<std::uint32_t>(i))));
      ids.push_back(id_as<BundleId>(record_id(out.bundles.back()).value()));
    }
    out.seal = must_sign(key, seal_of(out.run, open.version.value(), ids, open.previous_seal, table));
    out.seal_hash = id_as<SealHash>(record_id(out.seal).value());
    return out;
  }
  Signed anchor(std::uint64_t version, const SealHash& previous = {}) const {
    return run(anchor_open(version, previous), 2, table_of(version));
  }
  Signed delta(std::uint64_t version, std::uint64_t parent, const SealHash& previous) const {
    return run(delta_open(version, parent, previous, table_of(parent)), 2, table_of(version));
  }
  Signed again(std::uint64_t version, const SealHash& its_seal, std::uint8_t salt = 200) const {
    OpenRecord open = anchor_open(version, its_seal);
    open.salt = blob<Salt>(salt);
    return run(open, 3, table_of(version));
  }
  Bytes abandon(const Signed& run, std::uint64_t version) const {
    return must_sign(key, AbandonRecord{run.run, Version(version)});
  }
  Bytes certify(const Signed& run, std::uint64_t version) const {
    return must_sign(key, CertifyRecord{Version(version), run.seal_hash, blob<Sha256>(99)});
  }
  Bytes delegate(WallTime issued = kNow) const {
    return must_sign(key, DelegateRecord{online.verifying_key(), issued + 30 * 24h}, issued);
  }
  Bytes head(std::uint64_t version, const SealHash& seal, WallTime issued = kNow) const {
    return must_sign(online, HeadRecord{Version(version), seal, issued + 60s}, issued);
  }

  SigningKey key = SigningKey::generate();
  SigningKey online = SigningKey::generate();
};

class ChannelLogTest : public ::testing::Test {
 protected:
  Publisher publisher;
  ChannelLog log{channel(), publisher.key.verifying_key()};

  Took take(const Bytes& envelope, WallTime now = kNow) { return log.receive(envelope, now).kind; }
  void take_all(const Signed& run) {
    EXPECT_EQ(take(run.open), Took::accepted);
    for (const Bytes& bundle : run.bundles) EXPECT_EQ(take(bundle), Took::accepted);
    EXPECT_EQ(take(run.seal), Took::accepted);
  }
  RunState state(const Signed& run) const {
    const auto* found = log.run(run.run);
    EXPECT_NE(found, nullptr);
    return found == nullptr ? RunState::dead : found->state();
  }
  std::string events() {
    static const char* const kNames[] = {"opened",    "bundle",    "sealed", "died",
                                         "certified", "delegated", "head"};
    std::string out;
    for (const LogEvent& event : log.take_events()) {
      out += kNames[static_cast<int>(event.kind)] + std::to_string(event.version.value()) + " ";
    }
    return out;
  }
};

TEST(RunState, Table) {
  using enum RunState;
  for (RunEvent event : {RunEvent::completed, RunEvent::superseded, RunEvent::abandoned}) {
    EXPECT_EQ(next_state(sealed, event), sealed);
    EXPECT_EQ(next_state(dead, event), dead);
  }
  EXPECT_EQ(next_state(open, RunEvent::completed), sealed);
  EXPECT_EQ(next_state(open, RunEvent::superseded), dead);
  EXPECT_EQ(next_state(open, RunEvent::abandoned), dead);
}

TEST_F(ChannelLogTest, AChainGrows) {
  const Signed one = publisher.anchor(1), two = publisher.delta(2, 1, one.seal_hash);
  take_all(one);
  EXPECT_EQ(events(), "opened1 bundle1 bundle1 sealed1 ");
  EXPECT_EQ(log.highest_sealed(), Version(1));
  EXPECT_EQ(log.highest_seal(), one.seal_hash);
  EXPECT_EQ(take(two.open), Took::accepted);
  EXPECT_EQ(take(two.bundles[0]), Took::accepted);
  EXPECT_EQ(state(two), RunState::open);
  ASSERT_EQ(log.open_runs().size(), 1u);
  EXPECT_EQ(log.open_runs()[0]->id(), two.run);
  EXPECT_EQ(log.highest_sealed(), Version(1));
  EXPECT_EQ(log.highest_seen(), Version(2));
  EXPECT_EQ(take(two.bundles[1]), Took::accepted);
  EXPECT_EQ(take(two.seal), Took::accepted);
  EXPECT_EQ(log.highest_sealed(), Version(2));
  EXPECT_EQ(take(two.bundles[1]), Took::duplicate);
  EXPECT_EQ(take(one.open), Took::duplicate);
  EXPECT_EQ(take(two.seal), Took::duplicate);
}

TEST_F(ChannelLogTest, SealsWaitForTheirBundles) {
  const Signed one = publisher.anchor(1);
  take(one.open);
  const LogAnswer answer = log.receive(one.seal, kNow);
  EXPECT_EQ(answer.kind, Took::waiting);
  ASSERT_TRUE(answer.missing);
  EXPECT_EQ(answer.missing->what, Missing::What::bundles);
  EXPECT_EQ(take(one.bundles[1]), Took::accepted);
  EXPECT_EQ(state(one), RunState::open);
  EXPECT_NE(log.run(one.run)->seal(), nullptr) << "known, though not complete";
  EXPECT_EQ(take(one.bundles[0]), Took::accepted);
  EXPECT_EQ(state(one), RunState::sealed);
}

TEST_F(ChannelLogTest, RecordsThatComeEarlySayWhatTheyNeed) {
  const Signed one = publisher.anchor(1);
  const LogAnswer bundle = log.receive(one.bundles[0], kNow);
  EXPECT_EQ(bundle.kind, Took::waiting);
  EXPECT_EQ(bundle.missing->what, Missing::What::run);
  EXPECT_EQ(bundle.missing->id.data, one.run.data);
  EXPECT_EQ(take(one.seal), Took::waiting);
  EXPECT_EQ(take(one.bundles[1]), Took::waiting);
  EXPECT_EQ(take(one.bundles[1]), Took::duplicate);
  EXPECT_EQ(events(), "");
  EXPECT_EQ(take(one.open), Took::accepted);
  EXPECT_EQ(state(one), RunState::sealed);
  EXPECT_EQ(events(), "opened1 bundle1 bundle1 sealed1 ");
}

TEST_F(ChannelLogTest, AHigherOpenKillsAnUnsealedVersion) {
  const Signed one = publisher.anchor(1), killed = publisher.delta(2, 1, one.seal_hash),
               three = publisher.delta(3, 1, one.seal_hash);
  take_all(one);
  take(killed.open);
  take(killed.bundles[0]);
  events();
  take_all(three);
  EXPECT_EQ(state(killed), RunState::dead);
  EXPECT_EQ(events(), "died2 opened3 bundle3 bundle3 sealed3 ");
  EXPECT_EQ(take(killed.bundles[1]), Took::stale);
  EXPECT_EQ(take(killed.seal), Took::refused) << "too late";
  EXPECT_EQ(log.highest_sealed(), Version(3));
}

TEST_F(ChannelLogTest, ADeadVersionIsRecognisedAfterwardsToo) {
  const Signed one = publisher.anchor(1), killed = publisher.delta(2, 1, one.seal_hash),
               three = publisher.delta(3, 1, one.seal_hash);
  take_all(one);
  take(three.open);
  EXPECT_EQ(take(killed.open), Took::stale);
  EXPECT_EQ(log.run(killed.run), nullptr);
}

TEST_F(ChannelLogTest, AnOpenThatOvertookASealDoesNotKillIt) {
  const Signed one = publisher.anchor(1), two = publisher.delta(2, 1, one.seal_hash),
               three = publisher.delta(3, 2, two.seal_hash);
  take_all(one);
  take(two.open);
  const LogAnswer answer = log.receive(three.open, kNow);
  EXPECT_EQ(answer.kind, Took::accepted);
  ASSERT_TRUE(answer.missing) << "the hole in the chain shows";
  EXPECT_EQ(answer.missing->id.data, two.seal_hash.data);
  EXPECT_EQ(state(two), RunState::open);
  for (const Bytes& bundle : two.bundles) take(bundle);
  EXPECT_EQ(take(two.seal), Took::accepted);
  EXPECT_EQ(state(two), RunState::sealed);
  EXPECT_EQ(state(three), RunState::open);
}

TEST_F(ChannelLogTest, AbandonSaysSoEarlier) {
  const Signed one = publisher.anchor(1), two = publisher.delta(2, 1, one.seal_hash);
  take_all(one);
  take(two.open);
  EXPECT_EQ(take(publisher.abandon(two, 2)), Took::accepted);
  EXPECT_EQ(state(two), RunState::dead);
  EXPECT_EQ(take(two.seal), Took::refused);
  EXPECT_EQ(take(publisher.abandon(one, 1)), Took::refused) << "sealed for good";
  EXPECT_EQ(state(one), RunState::sealed);
}

TEST_F(ChannelLogTest, AnAbandonMayComeFirst) {
  const Signed one = publisher.anchor(1);
  EXPECT_EQ(take(publisher.abandon(one, 1)), Took::waiting);
  EXPECT_EQ(take(one.open), Took::accepted);
  EXPECT_EQ(state(one), RunState::dead);
}

TEST_F(ChannelLogTest, TheFirstVersionMayDieAndTheChainStartsAtTheNext) {
  const Signed dead = publisher.anchor(1), two = publisher.anchor(2);
  take(dead.open);
  take_all(two);
  EXPECT_EQ(state(dead), RunState::dead);
  EXPECT_EQ(log.highest_sealed(), Version(2));
}

TEST_F(ChannelLogTest, ContradictionsAreRefused) {
  const Signed one = publisher.anchor(1);
  take_all(one);
  const auto refused = [&](const RecordBody& body) {
    const LogAnswer answer = log.receive(must_sign(publisher.key, body), kNow);
    return answer.kind == Took::refused && answer.error->code == ErrorCode::integrity;
  };
  // Of a sealed run.
  EXPECT_TRUE(refused(bundle_of(one.run, 1, 2))) << "beyond the seal";
  EXPECT_TRUE(refused(bundle_of(one.run, 1, 0, 39'999))) << "another bundle 0";
  SealRecord seal = seal_of(one.run, 1, {}, {}, table_of(1));
  EXPECT_TRUE(refused(seal)) << "a second seal";
  // Of the chain.
  OpenRecord open = anchor_open(1);
  open.salt = blob<Salt>(77);
  EXPECT_TRUE(refused(open)) << "version 1 again, as if there were no seal";
  EXPECT_TRUE(refused(anchor_open(5))) << "starts from nothing, though version 1 is sealed";
  EXPECT_TRUE(refused(delta_open(2, 1, one.seal_hash, blob<Sha256>(1)))) << "another parent table";
  EXPECT_TRUE(refused(delta_open(3, 2, one.seal_hash, table_of(1)))) << "the seal is not of the parent";
  EXPECT_TRUE(refused(delta_open(2, 1, blob<SealHash>(5), table_of(1)))) << "another seal of version 1";
  const Signed two = publisher.delta(2, 1, one.seal_hash);
  take(two.open);
  OpenRecord second = delta_open(2, 1, one.seal_hash, table_of(1));
  second.salt = blob<Salt>(78);
  EXPECT_TRUE(refused(second)) << "version 2 opened twice";
  // Of an open run.
  BundleRecord bundle = bundle_of(two.run, 2, 0);
  bundle.chunk_bytes *= 2;
  EXPECT_TRUE(refused(bundle));
  bundle = bundle_of(two.run, 3, 0);
  EXPECT_TRUE(refused(bundle));
  seal = seal_of(two.run, 2, {}, one.seal_hash, table_of(2));
  seal.tensor_slabs = 4;
  EXPECT_TRUE(refused(seal));
  seal = seal_of(two.run, 2, {}, blob<SealHash>(6), table_of(2));
  EXPECT_TRUE(refused(seal));
  seal = seal_of(two.run, 3, {}, one.seal_hash, table_of(2));
  EXPECT_TRUE(refused(seal));
  EXPECT_TRUE(refused(AbandonRecord{two.run, Version(3)}));
  EXPECT_EQ(state(two), RunState::open) << "none of them has left a trace";
  EXPECT_EQ(take(two.bundles[0]), Took::accepted);
  EXPECT_EQ(take(two.bundles[1]), Took::accepted);
  EXPECT_EQ(take(two.seal), Took::accepted);
}

TEST_F(ChannelLogTest, ASealOverOtherBundlesIsRefusedWhicheverComesLast) {
  const Signed one = publisher.anchor(1);
  take(one.open);
  const BundleId first = id_as<BundleId>(record_id(one.bundles[0]).value());
  const Bytes wrong =
      must_sign(publisher.key, seal_of(one.run, 1, {first, blob<BundleId>(3)}, {}, table_of(1)));
  EXPECT_EQ(take(wrong), Took::waiting);
  EXPECT_EQ(take(one.bundles[0]), Took::accepted);
  EXPECT_EQ(take(one.bundles[1]), Took::refused);
  EXPECT_EQ(state(one), RunState::open);

  ChannelLog other(channel(), publisher.key.verifying_key());
  other.receive(one.open, kNow);
  for (const Bytes& bundle : one.bundles) other.receive(bundle, kNow);
  EXPECT_EQ(other.receive(wrong, kNow).kind, Took::refused);
  EXPECT_EQ(other.receive(one.seal, kNow).kind, Took::accepted);
}

TEST_F(ChannelLogTest, AVersionCannotPassOverASealedOne) {
  const Signed one = publisher.anchor(1), two = publisher.delta(2, 1, one.seal_hash);
  take_all(one);
  take_all(two);
  EXPECT_EQ(take(publisher.delta(3, 1, one.seal_hash).open), Took::refused);
}

TEST_F(ChannelLogTest, AnAnchorOfASealedVersionIsOutsideTheChain) {
  const Signed one = publisher.anchor(1), two = publisher.delta(2, 1, one.seal_hash),
               anchor = publisher.again(2, two.seal_hash), three = publisher.delta(3, 2, two.seal_hash);
  take_all(one);
  take_all(two);
  take_all(three);
  take_all(anchor);
  EXPECT_TRUE(log.run(anchor.run)->again());
  EXPECT_EQ(log.highest_sealed(), Version(3));
  EXPECT_EQ(log.version(Version(2))->id(), two.run);
  EXPECT_EQ(log.anchors().size(), 2u);
  EXPECT_EQ(log.lineage(Version(3)), (std::vector<RunId>{anchor.run, three.run}));
  EXPECT_EQ(log.lineage(Version(2)), (std::vector<RunId>{anchor.run}));
  EXPECT_EQ(log.lineage(Version(1)), (std::vector<RunId>{one.run}));
  EXPECT_EQ(log.deltas(Version(1), Version(3)), (std::vector<RunId>{two.run, three.run}));
}

TEST_F(ChannelLogTest, AnAnchorMustLeadToTheSameTable) {
  const Signed one = publisher.anchor(1);
  take_all(one);
  OpenRecord open = anchor_open(1, one.seal_hash);
  const Signed wrong = publisher.run(open, 1, table_of(7));
  EXPECT_EQ(take(wrong.open), Took::accepted);
  EXPECT_EQ(take(wrong.bundles[0]), Took::accepted);
  EXPECT_EQ(take(wrong.seal), Took::refused);
  open.layout_hash = blob<LayoutHash>(1);
  EXPECT_EQ(take(must_sign(publisher.key, open)), Took::refused);
}

TEST_F(ChannelLogTest, AnAnchorThatFailedIsAbandonedAndMadeAgain) {
  const Signed one = publisher.anchor(1), failed = publisher.again(1, one.seal_hash, 201),
               anchor = publisher.again(1, one.seal_hash, 202);
  take_all(one);
  take(failed.open);
  take_all(anchor);
  EXPECT_EQ(state(failed), RunState::open);
  EXPECT_EQ(take(publisher.abandon(failed, 1)), Took::accepted);
  EXPECT_EQ(state(failed), RunState::dead);
  EXPECT_EQ(state(anchor), RunState::sealed);
  EXPECT_EQ(state(one), RunState::sealed);
}

TEST_F(ChannelLogTest, AnAnchorInTheChainBreaksTheDeltas) {
  const Signed one = publisher.anchor(1), two = publisher.anchor(2, one.seal_hash),
               three = publisher.delta(3, 2, two.seal_hash);
  take_all(one);
  take_all(two);
  take(three.open);
  EXPECT_FALSE(log.deltas(Version(1), Version(3)));
  EXPECT_EQ(log.deltas(Version(2), Version(3)), (std::vector<RunId>{three.run})) << "open already";
  EXPECT_EQ(log.deltas(Version(3), Version(3)), std::vector<RunId>());
  EXPECT_FALSE(log.deltas(Version(3), Version(2)));
  EXPECT_FALSE(log.deltas(Version(2), Version(9)));
  EXPECT_EQ(log.lineage(Version(3)), (std::vector<RunId>{two.run, three.run}));
}

TEST_F(ChannelLogTest, Certificates) {
  const Signed one = publisher.anchor(1);
  EXPECT_EQ(take(publisher.certify(one, 1)), Took::waiting);
  take_all(one);
  ASSERT_NE(log.certificate(Version(1)), nullptr);
  EXPECT_EQ(log.certificate(Version(1))->slab_root, blob<Sha256>(99));
  EXPECT_EQ(take(must_sign(publisher.key, CertifyRecord{Version(1), one.seal_hash, blob<Sha256>(98)})),
            Took::refused);
  EXPECT_EQ(take(must_sign(publisher.key, CertifyRecord{Version(2), one.seal_hash, blob<Sha256>(98)})),
            Took::refused);
}

TEST_F(ChannelLogTest, HeadTellsFrozenFromIdle) {
  const Signed one = publisher.anchor(1);
  EXPECT_EQ(log.head_state(kNow), HeadState::unknown);
  EXPECT_EQ(take(publisher.head(0, {})), Took::refused) << "no delegate yet";
  EXPECT_EQ(take(publisher.delegate()), Took::accepted);
  EXPECT_EQ(take(publisher.head(0, {})), Took::accepted);
  EXPECT_EQ(log.head_state(kNow), HeadState::idle);
  EXPECT_EQ(take(publisher.head(1, one.seal_hash, kNow + 20s), kNow + 20s), Took::accepted);
  EXPECT_EQ(log.head_state(kNow + 20s), HeadState::behind);
  take_all(one);
  EXPECT_EQ(log.head_state(kNow + 20s), HeadState::idle);
  EXPECT_EQ(log.head_state(kNow + 79s), HeadState::idle);
  EXPECT_EQ(log.head_state(kNow + 80s), HeadState::frozen);
  EXPECT_EQ(take(publisher.head(1, one.seal_hash, kNow + 90s), kNow + 90s), Took::accepted);
  EXPECT_EQ(log.head_state(kNow + 90s), HeadState::idle);
}

TEST_F(ChannelLogTest, HeadsOnlyRise) {
  const Signed one = publisher.anchor(1), two = publisher.delta(2, 1, one.seal_hash);
  take(publisher.delegate());
  take_all(one);
  EXPECT_EQ(take(publisher.head(2, two.seal_hash, kNow + 2s), kNow + 2s), Took::accepted);
  EXPECT_EQ(take(publisher.head(1, one.seal_hash, kNow + 1s), kNow + 2s), Took::stale)
      << "an older one, late";
  EXPECT_EQ(take(publisher.head(1, one.seal_hash, kNow + 3s), kNow + 3s), Took::refused) << "a roll-back";
  EXPECT_EQ(take(publisher.head(2, blob<SealHash>(9), kNow + 3s), kNow + 3s), Took::refused);
  EXPECT_EQ(take(publisher.head(2, two.seal_hash, kNow + 10min), kNow + 3s), Took::refused) << "the future";
  ChannelLog other(channel(), publisher.key.verifying_key());
  other.receive(publisher.delegate(), kNow);
  for (const Bytes& record : {one.open, one.bundles[0], one.bundles[1], one.seal})
    other.receive(record, kNow);
  EXPECT_EQ(other.receive(publisher.head(1, blob<SealHash>(9)), kNow).kind, Took::refused)
      << "not the seal we have";
}

TEST_F(ChannelLogTest, ClockIsCorrectedWithinBounds) {
  EXPECT_EQ(ChannelLog::corrected(kNow, 90s), kNow + 90s);
  EXPECT_EQ(ChannelLog::corrected(kNow, -90s), kNow - 90s);
  EXPECT_EQ(ChannelLog::corrected(kNow, 24h), kNow + 5min);
  EXPECT_EQ(ChannelLog::corrected(kNow, -24h), kNow - 5min);
}

TEST_F(ChannelLogTest, DelegateIsRenewed) {
  EXPECT_EQ(take(publisher.delegate()), Took::accepted);
  EXPECT_EQ(take(publisher.delegate(kNow + 1s)), Took::accepted);
  EXPECT_EQ(take(publisher.delegate()), Took::stale);
  ASSERT_TRUE(log.delegate_record());
  EXPECT_EQ(log.delegate_record()->issued(), kNow + 1s);
}

TEST_F(ChannelLogTest, StrangersAreRefused) {
  const Publisher other;
  EXPECT_EQ(take(other.anchor(1).open), Took::refused);
  EXPECT_EQ(log.receive(as_bytes("rubbish"), kNow).error->code, ErrorCode::malformed);
  EXPECT_EQ(log.highest_seen(), Version());
}

TEST_F(ChannelLogTest, WaitingIsBounded) {
  const Signed one = publisher.anchor(1);
  take(one.bundles[0]);
  for (std::size_t i = 0; i < ChannelLog::kMaxWaiting; ++i) {
    BundleRecord bundle = bundle_of(blob<RunId>(1), 5, static_cast<std::uint32_t>(i));
    ASSERT_EQ(take(must_sign(publisher.key, bundle)), Took::waiting);
  }
  EXPECT_EQ(take(one.bundles[0]), Took::waiting) << "the oldest has made room, and is news again";
}

// A history with everything in it: deaths of both kinds, a chain anchor, anchors outside the chain,
// certificates.
std::vector<Bytes> history(const Publisher& publisher) {
  const Signed one = publisher.anchor(1), two = publisher.delta(2, 1, one.seal_hash),
               passed = publisher.delta(3, 2, two.seal_hash), four = publisher.delta(4, 2, two.seal_hash),
               again = publisher.again(2, two.seal_hash), five = publisher.anchor(5, four.seal_hash),
               abandoned = publisher.delta(6, 5, five.seal_hash),
               seven = publisher.delta(7, 5, five.seal_hash), later = publisher.again(7, seven.seal_hash),
               eight = publisher.delta(8, 7, seven.seal_hash);
  std::vector<Bytes> out{publisher.delegate()};
  const auto add = [&](const Signed& run) {
    out.push_back(run.open);
    out.insert(out.end(), run.bundles.begin(), run.bundles.end());
    out.push_back(run.seal);
  };
  add(one), add(two), out.push_back(passed.open), out.push_back(passed.bundles[0]), add(four), add(again),
      add(five);
  out.push_back(abandoned.open), out.push_back(publisher.abandon(abandoned, 6));
  add(seven), add(later), out.push_back(publisher.certify(seven, 7));
  out.push_back(eight.open), out.push_back(eight.bundles[0]);
  out.push_back(publisher.head(7, seven.seal_hash));
  return out;
}

// What a log believes, as text.
std::string belief(const ChannelLog& log) {
  std::string out = std::to_string(log.highest_sealed().value()) + " " + log.highest_seal().short_hex() + " ";
  for (std::uint64_t v = 1; v <= 8; ++v) {
    const Run* run = log.version(Version(v));
    const bool alive = run != nullptr && run->state() != RunState::dead;
    out += alive ? std::string(name_of(run->state())) + std::to_string(run->bundles().size()) + " " : "- ";
  }
  for (const Run* anchor : log.anchors()) out += anchor->id().short_hex() + " ";
  const auto lineage = log.lineage(Version(8));
  for (const RunId& run : lineage.value_or(std::vector<RunId>())) out += run.short_hex() + " ";
  out += log.certificate(Version(7)) != nullptr ? "certified" : "";
  return out + " " + std::string(name_of(log.head_state(kNow)));
}

TEST_F(ChannelLogTest, AnyOrderOfArrivalLeadsToTheSameBelief) {
  const std::vector<Bytes> records = history(publisher);
  for (const Bytes& record : records) EXPECT_EQ(take(record), Took::accepted);
  const std::string expected = belief(log);
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 30; ++round) {
    std::vector<Bytes> shuffled = records;
    // The delegate goes first: without it a head is not verified at all, and comes again 20 s later.
    std::shuffle(shuffled.begin() + 1, shuffled.end(), random);
    ChannelLog other(channel(), publisher.key.verifying_key());
    for (const Bytes& record : shuffled) {
      const LogAnswer answer = other.receive(record, kNow);
      EXPECT_NE(answer.kind, Took::refused) << answer.error->message;
    }
    ASSERT_EQ(belief(other), expected) << "round " << round;
  }
}

// Gives everything that `from` would answer to `to`; how many of it did not fit at once.
std::size_t pull(const ChannelLog& from, ChannelLog& to) {
  std::size_t waited = 0;
  for (const VerifiedRecord* record : from.newer_than(to.position())) {
    const LogAnswer answer = to.receive(record->envelope(), kNow);
    EXPECT_NE(answer.kind, Took::refused) << answer.error->message;
    EXPECT_NE(answer.kind, Took::duplicate) << name_of(record->body());
    if (answer.kind == Took::waiting || answer.missing) ++waited;
  }
  return waited;
}

TEST_F(ChannelLogTest, PullingGivesExactlyWhatIsMissing) {
  const std::vector<Bytes> records = history(publisher);
  for (const Bytes& record : records) take(record);
  for (std::size_t have = 0; have <= records.size(); have += 2) {
    ChannelLog other(channel(), publisher.key.verifying_key());
    for (std::size_t i = 0; i < have; ++i) other.receive(records[i], kNow);
    pull(log, other);
    EXPECT_EQ(other.highest_sealed(), Version(7)) << have;
    EXPECT_EQ(other.lineage(Version(8)), log.lineage(Version(8))) << have;
    EXPECT_EQ(other.head_state(kNow), HeadState::idle);
    EXPECT_TRUE(log.newer_than(other.position()).empty()) << have;
  }
}

TEST_F(ChannelLogTest, AStrangerGetsTheLatestLineageOnly) {
  for (const Bytes& record : history(publisher)) take(record);
  ChannelLog other(channel(), publisher.key.verifying_key());
  EXPECT_EQ(pull(log, other), 1u) << "only the seal below the lineage waits for its run";
  EXPECT_EQ(other.version(Version(2)), nullptr);
  EXPECT_NE(other.version(Version(7)), nullptr);
  EXPECT_TRUE(other.lineage(Version(7)));
  EXPECT_EQ(other.position().version, Version(7));
}

TEST_F(ChannelLogTest, OneWhoIsAheadGetsNothingOld) {
  const Signed one = publisher.anchor(1), two = publisher.delta(2, 1, one.seal_hash);
  take_all(one);
  ChannelLog ahead(channel(), publisher.key.verifying_key());
  for (const Signed& run : {one, two}) {
    ahead.receive(run.open, kNow);
    for (const Bytes& bundle : run.bundles) ahead.receive(bundle, kNow);
    ahead.receive(run.seal, kNow);
  }
  EXPECT_TRUE(log.newer_than(ahead.position()).empty());
  EXPECT_EQ(ahead.newer_than(log.position()).size(), 4u);
}

TEST_F(ChannelLogTest, SavedEnvelopesGiveTheSameLog) {
  for (const Bytes& record : history(publisher)) take(record);
  ChannelLog again(channel(), publisher.key.verifying_key());
  for (const VerifiedRecord* record : log.all()) {
    EXPECT_EQ(again.receive(record->envelope(), kNow).kind, Took::accepted) << name_of(record->body());
  }
  EXPECT_EQ(belief(again), belief(log));
  EXPECT_EQ(again.all().size(), log.all().size());
}

TEST_F(ChannelLogTest, PruningKeepsWhatTheLineageNeeds) {
  for (const Bytes& record : history(publisher)) take(record);
  const auto lineage = log.lineage(Version(8));
  log.prune(Version(7));
  EXPECT_EQ(log.lineage(Version(8)), lineage);
  EXPECT_EQ(log.version(Version(5)), nullptr);
  EXPECT_EQ(log.position().version, Version(7));
  // A pruned log, saved and read again, still serves strangers and those one version behind.
  ChannelLog again(channel(), publisher.key.verifying_key()),
      stranger(channel(), publisher.key.verifying_key());
  for (const VerifiedRecord* record : log.all()) again.receive(record->envelope(), kNow);
  pull(again, stranger);
  EXPECT_EQ(stranger.lineage(Version(8)), lineage);
  log.prune(Version(8));
  EXPECT_EQ(log.highest_sealed(), Version(7));
}

TEST_F(ChannelLogTest, ALateSealOfABarelyKnownVersionIsFoundByItsRun) {
  const Signed one = publisher.anchor(1), two = publisher.delta(2, 1, one.seal_hash);
  EXPECT_EQ(take(one.seal), Took::waiting);
  const LogAnswer answer = log.receive(two.open, kNow);
  EXPECT_EQ(answer.kind, Took::accepted);
  EXPECT_FALSE(answer.missing) << "a seal alone says enough about the version below";
  take(one.open);
  for (const Bytes& bundle : one.bundles) take(bundle);
  EXPECT_EQ(state(one), RunState::sealed);
}

}  // namespace
}  // namespace p2pw
