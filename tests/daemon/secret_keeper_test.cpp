#include "daemon/core/secret_keeper.h"

#include <gtest/gtest.h>

#include "daemon/client/files.h"
#include "daemon/client/fleet_secrets.h"
#include "tests/support/temp_dir.h"

namespace p2pw {
namespace {

class SecretKeeperTest : public ::testing::Test {
 protected:
  struct Daemon {
    SigningKey key = SigningKey::generate();
    Config config;
    std::optional<SecretKeeper> keeper;
    std::string newest() const { return keeper->current()->id().hex(); }
  };
  void SetUp() override {
    int n = 0;
    for (Daemon* d : {&trainer_, &a_, &b_}) {
      d->config.state = dir_ / std::to_string(n++);
      BootstrapConfig bootstrap;
      bootstrap.key = node_key_of(trainer_.key);
      bootstrap.trainer = true;
      if (d != &trainer_) d->config.bootstrap.push_back(bootstrap);
      ASSERT_TRUE(add_fleet_secret(d->config.paths(), old_).ok());
      reopen(*d);
    }
  }
  void reopen(Daemon& d) {
    auto keeper = SecretKeeper::open(d.config);
    ASSERT_TRUE(keeper.ok()) << keeper.error().message;
    d.keeper.emplace(std::move(*keeper));
  }
  SecretKeeper::Parts rotate(const std::set<NodeKey>& without = {}) {
    std::vector<NodeKey> members;
    for (const Daemon* d : {&a_, &b_}) members.push_back(node_key_of(d->key));
    auto parts = trainer_.keeper->rotate(trainer_.key, now_ += std::chrono::seconds(1), members, without);
    EXPECT_TRUE(parts.ok()) << parts.error().message;
    return parts.ok() ? *parts : SecretKeeper::Parts();
  }
  SecretKeeper::Heard hear(Daemon& d, const SecretKeeper::Parts& parts) {
    auto heard = d.keeper->hear(parts.at(0), d.key);
    EXPECT_TRUE(heard.ok()) << heard.error().message;
    return heard.ok() ? *heard : SecretKeeper::Heard();
  }

  testing::TempDir dir_;
  FleetSecret old_ = FleetSecret::generate();
  WallTime now_ = from_millis(1'000'000);
  Daemon trainer_, a_, b_;
};

TEST_F(SecretKeeperTest, ANewSecretThenOnlyTheNewOne) {
  auto parts = rotate();
  EXPECT_TRUE(hear(a_, parts).changed);
  EXPECT_FALSE(hear(a_, parts).news) << "told twice";
  EXPECT_EQ(a_.newest(), trainer_.newest());
  EXPECT_NE(a_.newest(), old_.id().hex());
  EXPECT_EQ(a_.keeper->for_links().size(), 2u);
  EXPECT_NE(a_.keeper->find(old_.id()), nullptr) << "older lineages stay readable";
  auto end = trainer_.keeper->retire(trainer_.key, now_ += std::chrono::seconds(1), {node_key_of(a_.key)});
  ASSERT_TRUE(end.ok());
  EXPECT_TRUE(hear(a_, *end).changed);
  for (Daemon* d : {&trainer_, &a_}) {
    reopen(*d);  // and after a restart
    ASSERT_EQ(d->keeper->for_links().size(), 1u);
    EXPECT_EQ(d->keeper->for_links()[0].id().hex(), trainer_.newest());
    EXPECT_NE(d->keeper->find(old_.id()), nullptr);
  }
  EXPECT_FALSE(a_.keeper->hear(parts.at(0), a_.key)->news) << "an older handover is no news";
}

TEST_F(SecretKeeperTest, WhoIsLeftOutLearnsNothingAndPassesItOn) {
  auto parts = rotate({node_key_of(b_.key)});
  auto heard = hear(b_, parts);
  EXPECT_TRUE(heard.news);
  EXPECT_FALSE(heard.changed);
  EXPECT_EQ(b_.newest(), old_.id().hex());
  EXPECT_EQ(b_.keeper->part_for(node_key_of(b_.key)), nullptr);
  EXPECT_NE(b_.keeper->part_for(node_key_of(a_.key)), nullptr);
  reopen(trainer_);
  EXPECT_TRUE(trainer_.keeper->excluded().contains(node_key_of(b_.key)));
  auto later = trainer_.keeper->for_newcomers(trainer_.key, {node_key_of(a_.key), node_key_of(b_.key)});
  ASSERT_TRUE(later.ok());
  EXPECT_TRUE(later->empty()) << "not later either";
}

TEST_F(SecretKeeperTest, AMemberThatComesLaterGetsItsCopy) {
  (void)rotate();
  const SigningKey late = SigningKey::generate();
  auto parts = trainer_.keeper->for_newcomers(trainer_.key, {node_key_of(late), node_key_of(a_.key)});
  ASSERT_TRUE(parts.ok());
  ASSERT_EQ(parts->size(), 1u);
  const NodeKey trusted = node_key_of(trainer_.key);
  auto got = read_handover(parts->at(0), late, {&trusted, 1});
  ASSERT_TRUE(got.ok());
  EXPECT_TRUE(got->secret);
  EXPECT_TRUE(trainer_.keeper->for_newcomers(trainer_.key, {node_key_of(late)})->empty());
}

TEST_F(SecretKeeperTest, AMemberCannotRotate) {
  auto forged = make_handover(b_.key, FleetSecret::generate(), now_, true, std::vector{node_key_of(a_.key)});
  EXPECT_FALSE(a_.keeper->hear(forged.at(0), a_.key).ok());
  EXPECT_EQ(a_.newest(), old_.id().hex());
  EXPECT_FALSE(read_small_file(a_.config.paths().fleet() / "only", 100).ok());
}

TEST_F(SecretKeeperTest, OneRotationAtATime) {
  (void)rotate();
  EXPECT_EQ(trainer_.keeper->rotate(trainer_.key, now_, {}, {}).error().code, ErrorCode::usage);
  ASSERT_TRUE(trainer_.keeper->retire(trainer_.key, now_, {}).ok());
  EXPECT_TRUE(trainer_.keeper->rotate(trainer_.key, now_, {}, {}).ok());
  EXPECT_EQ(a_.keeper->retire(a_.key, now_, {}).error().code, ErrorCode::usage);
}

}  // namespace
}  // namespace p2pw
