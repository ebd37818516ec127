// A channel whose runs are signed: the frames of a TestSeries under records that a ChannelLog accepts, and the bundles in a
// BundleStore, whole. For tests of what reads or writes all of it.
#pragma once

#include <gtest/gtest.h>

#include "daemon/core/bundle_store.h"
#include "protocol/channel_log.h"
#include "protocol/hash.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_versions.h"

namespace p2pw::testing {

class SignedSeries {
 public:
  explicit SignedSeries(std::uint64_t seed)
      : series_(seed), log(channel, key.verifying_key()), bundles(folder_ / "bundles") {
    std::filesystem::create_directories(folder_ / "bundles");
  }

  static inline const WallTime kNow = from_millis(1'800'000'000'000);

  // Version 1 by an anchor, then deltas.
  Version next() {
    const Version before = newest;
    newest = before.value() == 0 ? series_.first().version : series_.step(before).version;
    publish(before.value() == 0 ? series_.anchor(newest) : series_.delta(before, newest), log.highest_seal());
    return newest;
  }
  // An anchor of the newest version, outside the chain.
  void anchor_again() { publish(series_.anchor(newest), log.highest_seal()); }
  void certify() { sign(CertifyRecord{newest, log.highest_seal(), sha256(as_bytes("slabs"))}); }
  Bytes sign(const RecordBody& body) {
    auto envelope = sign_record(key, channel, kNow, body);
    EXPECT_TRUE(envelope.ok()) << (envelope.ok() ? "" : envelope.error().message);
    const LogAnswer answer = log.receive(*envelope, kNow);
    EXPECT_EQ(answer.kind, LogAnswer::Kind::accepted) << (answer.error ? answer.error->message : "");
    return *envelope;
  }

  const TestVersion& at(Version version) const { return series_.at(version); }
  std::shared_ptr<const StoredBundle> find(const BundleId& id) const {
    auto stored = bundles.find(id);
    return stored != nullptr && stored->file->complete() ? stored : nullptr;
  }

 private:
  TempDir folder_;
  TestSeries series_;

 public:
  const Channel channel = Channel::parse("policy").value();
  const SigningKey key = SigningKey::generate();
  ChannelLog log;
  BundleStore bundles;
  Version newest;
  std::map<RunId, std::shared_ptr<const FrameSealer>> sealers;

 private:
  void publish(TestRun run, const SealHash& previous) {
    run.open.previous_seal = previous;
    run.open.secret_id.data.fill(7);
    const RunId id = id_as<RunId>(*record_id(sign(run.open)));
    sealers[id] = run.sealer;
    std::string ids;
    for (TestRun::Bundle& bundle : run.bundles) {
      const Bytes meta = bundle.meta->encode();
      bundle.record.run = id;
      bundle.record.pieces_root = pieces_root(bundle.meta->chunk_roots, bundle.record.chunk_bytes);
      bundle.record.meta_hash = sha256(meta);
      bundle.record.meta_bytes = static_cast<std::uint32_t>(meta.size());
      const BundleId bundle_id = id_as<BundleId>(*record_id(sign(bundle.record)));
      ids += bundle_id.text();
      store(bundle_id, bundle);
    }
    run.seal.run = id;
    run.seal.previous_seal = previous;
    run.seal.bundles_hash = sha256(as_bytes(ids));
    sign(run.seal);
  }
  void store(const BundleId& id, const TestRun::Bundle& bundle) {
    auto stored = bundles.open(id, bundle.record, bundle.meta->encode());
    ASSERT_TRUE(stored.ok()) << stored.error().message;
    for (std::uint32_t i = 0; i < bundle.record.chunk_count(); ++i) {
      ASSERT_TRUE((*stored)->file->put(ChunkIndex(i), bundle.chunk(i)).ok());
    }
  }
};

}  // namespace p2pw::testing
