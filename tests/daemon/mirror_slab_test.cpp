#include "daemon/mirror/mirror_slab.h"

#include <gtest/gtest.h>

#include "daemon/mirror/mirror_pass.h"
#include "tests/support/signed_series.h"

namespace p2pw {
namespace {

using testing::SignedSeries;
using testing::TempDir;

class MirrorSlabTest : public ::testing::Test {
 protected:
  MirrorSlabTest() {
    for (int i = 0; i < 4; ++i) origin.next();
    std::set<BundleId> there;
    MirrorJob job = mirror_job(origin.log, SignedSeries::kNow, [this](const BundleId& id) { return origin.find(id); });
    EXPECT_TRUE(run_pass(*store, job, there).ok());
  }
  // To what the slab is at any of these versions.
  SlabWay way(std::uint32_t index, std::vector<Version> versions) const {
    const Slab& slab = origin.at(Version(1)).table.bytes.layout->tensor_slabs()[index];
    SlabWay way{index, slab.dtype, slab.length, {}, {}};
    for (Version version : versions) way.wanted.insert(origin.at(version).table.tensors[index]);
    const auto lineage = origin.log.lineage(versions.back());
    for (const RunId& id : *lineage) {
      SlabWay::Step& step = way.steps.emplace_back();
      step.sealer = origin.sealers.at(id);
      for (auto& [bundle, record] : origin.log.run(id)->bundles()) {
        step.bundles.emplace_back(id_as<BundleId>(record.id()), *record.as<BundleRecord>());
      }
    }
    return way;
  }
  std::uint32_t slabs() const { return static_cast<std::uint32_t>(origin.at(Version(1)).tensor_slabs.size()); }

  TempDir dir;
  SignedSeries origin{21};
  std::unique_ptr<MirrorStore> store = open_folder_store(dir.path());
  MirrorNames names{origin.channel, origin.key.verifying_key().id};
  MetaCache metas;
};

TEST_F(MirrorSlabTest, EverySlabOfEveryVersionIsFound) {
  for (std::uint64_t v = 1; v <= 4; ++v) {
    for (std::uint32_t i = 0; i < slabs(); ++i) {
      auto found = fetch_slab(*store, names, way(i, {Version(v)}), metas);
      ASSERT_TRUE(found.ok()) << found.error().message;
      EXPECT_EQ(found->bytes, origin.at(Version(v)).tensor_slabs[i]) << "slab " << i << " of version " << v;
      EXPECT_EQ(found->digest, origin.at(Version(v)).table.tensors[i]);
    }
  }
}

TEST_F(MirrorSlabTest, ItEndsAtTheFirstContentsThatAreOfUse) {
  auto first = fetch_slab(*store, names, way(0, {Version(1)}), metas);
  auto any = fetch_slab(*store, names, way(0, {Version(1), Version(4)}), metas);
  ASSERT_TRUE(first.ok() && any.ok());
  EXPECT_EQ(any->digest, first->digest);
}

TEST_F(MirrorSlabTest, ADamagedFrameIsRefused) {
  SlabWay wanted = way(1, {Version(1)});
  const auto& bundles = wanted.steps.front().bundles;
  for (auto& [id, record] : bundles) {
    Bytes bytes = *store->get(names.bundle(id), record.used_bytes);
    for (std::byte& b : bytes) b ^= std::byte{1};
    ASSERT_TRUE(store->put(names.bundle(id), body_of(bytes)).ok());
  }
  auto found = fetch_slab(*store, names, wanted, metas);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().code, ErrorCode::integrity);
}

TEST_F(MirrorSlabTest, WhatNoVersionHasIsNotFound) {
  SlabWay wanted = way(0, {Version(4)});
  wanted.wanted = {Digest{}};
  EXPECT_EQ(fetch_slab(*store, names, wanted, metas).error().code, ErrorCode::incomplete);
}

}  // namespace
}  // namespace p2pw
