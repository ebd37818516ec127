#include "daemon/core/record_pulls.h"

#include <gtest/gtest.h>

#include <set>

namespace p2pw {
namespace {

using namespace std::chrono_literals;

NodeKey key(std::uint8_t byte) { return NodeKey{{byte}}; }

TEST(RecordPulls, OneLinkAfterTheOtherOncePerPeriod) {
  RecordPulls pulls;
  const RecordPulls::Time start{};
  const std::vector<NodeKey> links{key(3), key(1), key(2)};
  std::vector<NodeKey> asked;
  for (auto passed = 0ms; passed < 4 * RecordPulls::kPeriod; passed += 100ms) {
    if (auto peer = pulls.due(start + passed, links)) asked.push_back(*peer);
  }
  EXPECT_EQ(asked, (std::vector<NodeKey>{key(1), key(2), key(3), key(1)}));
}

TEST(RecordPulls, LinksThatComeAndGoAreTakenAsTheyAre) {
  RecordPulls pulls;
  RecordPulls::Time now{};
  EXPECT_EQ(pulls.due(now, {}), std::nullopt);
  EXPECT_EQ(pulls.due(now += 1ms, {key(2)}), key(2));  // nobody was asked yet: no period has begun
  EXPECT_EQ(pulls.due(now += RecordPulls::kPeriod, {key(1), key(3)}), key(3));
  EXPECT_EQ(pulls.due(now += RecordPulls::kPeriod, {key(1), key(2)}), key(1));
}

}  // namespace
}  // namespace p2pw
