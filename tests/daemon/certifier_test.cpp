#include "daemon/core/certifier.h"

#include <gtest/gtest.h>

#include <future>

#include "chunker/certificate.h"
#include "tests/daemon/rebuild_node.h"

namespace p2pw {
namespace {

using testing::RebuildNode;
using testing::TestSeries;

class CertifierTest : public ::testing::Test {
 protected:
  CertifierTest() { v1_ = series_.first().version; }
  void settle() {
    node_.all(series_.anchor(v1_));
    ASSERT_TRUE(node_.until_active(v1_));
    ASSERT_TRUE(node_.until_caught_up(v1_));
    for (const auto* slabs : {&series_.at(v1_).byte_slabs, &series_.at(v1_).tensor_slabs}) {
      for (const Bytes& slab : *slabs) hashes_.push_back(sha256(slab));
    }
    record_.version = v1_;
    record_.seal = node_.slots->active()->seal();
    record_.slab_root = slab_root(series_.at(v1_).byte_slabs.size(), series_.at(v1_).tensor_slabs.size(), hashes_);
    Certifier::Events events;
    events.certified = [this](Version v) { certified_.push_back(v); };
    events.ask = [this](Version) { ++asked_; };
    events.failed = [this](Version, const std::vector<SlabId>& wrong) {
      wrong_ = wrong;
      node_.rebuilder->slots_changed();
    };
    certifier_ = std::make_unique<Certifier>(*node_.slots, Certifier::Pools{idle_, hurry_}, std::move(events));
  }
  // The same wrong bytes in both slots, under a digest that everybody takes for good: what a neighbour achieves that makes
  // bytes fit a digest.
  void spoil(std::uint32_t index) {
    const Layout& layout = *series_.at(v1_).table.bytes.layout;
    const Slab& slab = layout.tensor_slabs()[index];
    for (SlotName name : {SlotName::a, SlotName::b}) {
      node_.files.flip_byte(node_.slots->slot(name)->checkpoint() / layout.files()[slab.file].path, slab.offset + 3);
    }
  }
  Bytes list() {
    Bytes bytes;
    for (const Sha256& hash : hashes_) bytes.insert(bytes.end(), hash.view().begin(), hash.view().end());
    return bytes;
  }

  TestSeries series_{33};
  RebuildNode node_{series_};
  Version v1_;
  std::vector<Sha256> hashes_;
  CertifyRecord record_;
  std::vector<Version> certified_;
  std::vector<SlabId> wrong_;
  int asked_ = 0;
  std::size_t hurried_ = 0;  // slabs that were hashed in a hurry
  WorkPool idle_{1, node_.loop.executor()};
  WorkPool hurry_{2, [this, post = node_.loop.executor()](WorkPool::Task task) {
                    post([this, task = std::move(task)] {
                      ++hurried_;
                      task();
                    });
                  }};
  std::unique_ptr<Certifier> certifier_;
};

TEST_F(CertifierTest, AnExactSlotIsCertifiedOnceAndTellsItsList) {
  settle();
  EXPECT_EQ(certifier_->certified_list(v1_), nullptr);
  certifier_->check(record_);
  ASSERT_TRUE(node_.until([&] { return !certified_.empty(); }));
  EXPECT_EQ(*certifier_->certified_list(v1_), list());
  EXPECT_EQ(hurried_, 0u);
  certifier_->check(record_);
  EXPECT_EQ(certifier_->state(), Certifier::State::idle);
  EXPECT_TRUE(node_.slots->standby_free());
}

// The rebuild of the version after the next one waits for the pinned slot.
TEST_F(CertifierTest, OnceOvertakenTheRestIsHashedInAHurry) {
  settle();
  std::promise<void> go;
  idle_.run([waiting = go.get_future().share()] { waiting.wait(); }, [] {});
  certifier_->check(record_);
  const Version next = series_.step(v1_).version;
  node_.all(series_.delta(v1_, next));
  ASSERT_TRUE(node_.until_active(next));
  EXPECT_FALSE(node_.slots->standby_free());
  EXPECT_EQ(hurried_, 0u);
  certifier_->tick(SteadyTime{});
  ASSERT_TRUE(node_.until([&] { return hurried_ > 0; }));
  go.set_value();
  ASSERT_TRUE(node_.until([&] { return !certified_.empty(); }));
  EXPECT_EQ(hurried_, hashes_.size() - 1);  // one was waiting for the idle thread
  EXPECT_TRUE(node_.until_caught_up(next));
}

TEST_F(CertifierTest, ASlabWithAForgedDigestIsFoundNamedAndTakenAnew) {
  settle();
  spoil(4);
  certifier_->check(record_);
  ASSERT_TRUE(node_.until([&] { return certifier_->state() == Certifier::State::asking; }));
  EXPECT_TRUE(certified_.empty());
  SteadyTime now{std::chrono::hours(1)};
  certifier_->tick(now);
  EXPECT_EQ(asked_, 1);
  Bytes forged = list();
  forged[40] ^= std::byte{1};
  EXPECT_EQ(certifier_->list(v1_, forged).error().code, ErrorCode::integrity);
  EXPECT_TRUE(certifier_->list(v1_, list()));
  EXPECT_EQ(wrong_, (std::vector<SlabId>{SlabId::tensor(4)}));
  // Neither slot gives it; a neighbour does, and `current` moves to the mended one.
  ASSERT_TRUE(node_.until([&] { return !node_.lost.empty(); }));
  EXPECT_EQ(node_.lost[0].slab, 4u);
  node_.rebuilder->slab_arrived(4, series_.at(v1_).tensor_slabs[4], series_.at(v1_).table.tensors[4]);
  ASSERT_TRUE(node_.until_caught_up(v1_));
  ASSERT_TRUE(node_.until([&] { return node_.rebuilder->progress().target == Version(); }));
  node_.expect_slot(*node_.slots->standby(), v1_);
  node_.activation->activate(*node_.slots->standby()->staged(), {});
  ASSERT_TRUE(node_.until([&] { return node_.active.size() == 2; }));
  node_.expect_current(v1_);
  // And the other one is mended from it.
  ASSERT_TRUE(node_.until([&] { return !node_.slots->standby()->distrusted() &&
                                       node_.slots->standby()->phase() == Slot::Phase::whole; }));
  node_.expect_slot(*node_.slots->standby(), v1_);
}

TEST_F(CertifierTest, ACertificateOfAnotherVersionIsNoneOfItsBusiness) {
  settle();
  record_.seal.data[0] ^= 1;
  certifier_->check(record_);
  EXPECT_EQ(certifier_->state(), Certifier::State::idle);
}

}  // namespace
}  // namespace p2pw
