#include "daemon/core/join.h"

#include <gtest/gtest.h>

#include "tests/support/memory_file_system.h"
#include "tests/support/signed_series.h"

namespace p2pw {
namespace {

using namespace std::chrono_literals;
using testing::MemoryFileSystem;
using testing::SignedSeries;

class JoinTest : public ::testing::Test {
 protected:
  NodeKey peer(std::uint8_t number) const {
    NodeKey key;
    key.data.fill(number);
    return key;
  }
  wire::Table nothing() const {
    wire::Table table;
    table.set_version(0);
    return table;
  }

  MemoryFileSystem files{1};
  SignedSeries series{5};
  std::vector<NodeKey> asked;
  Join join{series.log, std::make_shared<ByteStore>(files, "/bytes"),
            [this](const NodeKey& to, const wire::LinkMessage&) { asked.push_back(to); }};
  SteadyTime now = SteadyTime{} + 1h;
};

TEST_F(JoinTest, ANeighbourThatLinksAfterTheBeginningIsAskedAndWaitedFor) {
  join.begin({}, now);
  join.tick({}, false, now + 50ms);
  EXPECT_EQ(join.state(), Join::State::asking);
  join.tick({peer(1)}, false, now + 100ms);
  EXPECT_EQ(asked, std::vector<NodeKey>{peer(1)});
  EXPECT_EQ(join.state(), Join::State::asking) << "it has had no time to answer";
  join.tick({peer(1), peer(2)}, false, now + 200ms);
  EXPECT_EQ(asked.size(), 2u);
  ASSERT_TRUE(join.table(peer(1), nothing(), {}).ok());
  join.tick({peer(1), peer(2)}, false, now + 300ms);
  EXPECT_EQ(join.state(), Join::State::asking);
  ASSERT_TRUE(join.table(peer(2), nothing(), {}).ok());
  join.tick({peer(1), peer(2)}, false, now + 400ms);
  EXPECT_EQ(join.state(), Join::State::nobody);
  EXPECT_EQ(asked.size(), 2u) << "nobody is asked twice";
}

TEST_F(JoinTest, WithoutNeighboursNobodyIsFoundInTime) {
  join.begin({}, now);
  join.tick({}, false, now + Join::kAnswers - 1ms);
  EXPECT_EQ(join.state(), Join::State::asking);
  join.tick({}, false, now + Join::kAnswers);
  EXPECT_EQ(join.state(), Join::State::nobody);
}

}  // namespace
}  // namespace p2pw
