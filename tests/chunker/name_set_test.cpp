#include "chunker/name_set.h"

#include <gtest/gtest.h>

#include <string>

namespace p2pw {
namespace {

TEST(NameSet, FindsWhatIsInItAndWhatIsThereTwice) {
  std::vector<std::string> owned;
  for (int i = 0; i < 1000; ++i) owned.push_back("model.layers." + std::to_string(i));
  std::vector<std::string_view> names(owned.begin(), owned.end());
  NameSet set(names);
  EXPECT_TRUE(set.contains("model.layers.0"));
  EXPECT_TRUE(set.contains(std::string("model.layers.") + "999"));
  EXPECT_FALSE(set.contains("model.layers.1000"));
  EXPECT_FALSE(set.contains(""));
  EXPECT_FALSE(set.repeated());
  std::string again = "model.layers.7";
  names.push_back(again);
  EXPECT_EQ(NameSet(names).repeated(), "model.layers.7");
  EXPECT_FALSE(NameSet({}).contains("x"));
}

}  // namespace
}  // namespace p2pw
