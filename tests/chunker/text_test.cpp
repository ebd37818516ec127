#include "chunker/text.h"

#include <gtest/gtest.h>

namespace p2pw {
namespace {

TEST(Text, Utf8IsToldFromOtherBytes) {
  for (const char* good : {"", "a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(is_utf8(good)) << good;
  }
  for (const char* bad : {"\x80", "\xc0\xaf", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff", "a\xe2\x82"}) {
    EXPECT_FALSE(is_utf8(bad)) << bad;
  }
}

TEST(Text, PrintableNamesAreOneShortLineOfUtf8) {
  EXPECT_EQ(printable("model.embed"), "model.embed");
  EXPECT_EQ(printable("a\nb\x7f"), "a?b?");
  EXPECT_EQ(printable("a\xff"), "a?");
  std::string longest(119, 'x');
  std::string cut = printable(longest + "\xe2\x82\xac" + "more");
  EXPECT_EQ(cut, longest + "...");
  EXPECT_TRUE(is_utf8(cut));
}

}  // namespace
}  // namespace p2pw
