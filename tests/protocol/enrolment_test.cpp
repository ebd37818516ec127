#include "protocol/enrolment.h"

#include <gtest/gtest.h>

#include "tests/protocol/make_records.h"

namespace p2pw {
namespace {

using namespace p2pw::testing;
using std::chrono::hours;
using std::chrono::milliseconds;

const WallTime kExpires = kNow + hours(1);
const NodeKey kA = blob<NodeKey>(1), kB = blob<NodeKey>(2), kC = blob<NodeKey>(3);

TEST(Enrolments, OneUseForOneNode) {
  Enrolments table;
  const Enrolment made = Enrolment::make(kExpires, 1);
  ASSERT_TRUE(table.add(made, kNow).ok());
  EXPECT_EQ(table.check(made.id, kNow), made.secret);
  EXPECT_TRUE(table.use(made.id, kA, kNow).ok());
  EXPECT_EQ(table.use(made.id, kB, kNow).error().code, ErrorCode::untrusted);
  EXPECT_TRUE(table.use(made.id, kA, kNow).ok()) << "its first answer may have been lost";
}

TEST(Enrolments, SeveralUses) {
  Enrolments table;
  const Enrolment made = Enrolment::make(kExpires, 2);
  ASSERT_TRUE(table.add(made, kNow).ok());
  EXPECT_TRUE(table.use(made.id, kA, kNow).ok());
  EXPECT_TRUE(table.use(made.id, kA, kNow).ok());
  EXPECT_TRUE(table.use(made.id, kB, kNow).ok());
  EXPECT_FALSE(table.use(made.id, kC, kNow).ok());
}

TEST(Enrolments, Expire) {
  Enrolments table;
  const Enrolment made = Enrolment::make(kExpires, 1);
  ASSERT_TRUE(table.add(made, kNow).ok());
  EXPECT_TRUE(table.check(made.id, kExpires - milliseconds(1)));
  EXPECT_FALSE(table.check(made.id, kExpires));
  EXPECT_EQ(table.use(made.id, kA, kExpires).error().code, ErrorCode::timed_out);
  table.forget_expired(kExpires);
  EXPECT_EQ(table.size(), 0u);
  EXPECT_EQ(table.use(made.id, kA, kNow).error().code, ErrorCode::not_found);
  EXPECT_FALSE(table.check(made.id, kNow));
}

TEST(Enrolments, Bounds) {
  Enrolments table;
  EXPECT_EQ(table.add(Enrolment::make(kExpires, 0), kNow).error().code, ErrorCode::usage);
  EXPECT_EQ(table.add(Enrolment::make(kExpires, Enrolments::kMaxUses + 1), kNow).error().code,
            ErrorCode::usage);
  const Enrolment made = Enrolment::make(kExpires, 1);
  ASSERT_TRUE(table.add(made, kNow).ok());
  EXPECT_FALSE(table.add(made, kNow).ok());
  while (table.size() < Enrolments::kMaxOutstanding)
    ASSERT_TRUE(table.add(Enrolment::make(kExpires, 1), kNow).ok());
  EXPECT_EQ(table.add(Enrolment::make(kExpires + hours(1), 1), kNow).error().code, ErrorCode::busy);
  EXPECT_TRUE(table.add(Enrolment::make(kExpires + hours(1), 1), kExpires).ok()) << "expired ones make room";
}

TEST(Enrolments, TextRoundTrip) {
  Enrolments table;
  const Enrolment one = Enrolment::make(kExpires, 1), three = Enrolment::make(kExpires, 3);
  ASSERT_TRUE(table.add(one, kNow).ok() && table.add(three, kNow).ok());
  ASSERT_TRUE(table.use(three.id, kA, kNow).ok() && table.use(three.id, kB, kNow).ok());
  auto again = Enrolments::parse(table.text());
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->text(), table.text());
  EXPECT_EQ(again->check(one.id, kNow), one.secret);
  EXPECT_TRUE(again->use(three.id, kA, kNow).ok());
  EXPECT_TRUE(again->use(three.id, kC, kNow).ok());
  EXPECT_FALSE(again->use(three.id, blob<NodeKey>(9), kNow).ok());
  EXPECT_EQ(Enrolments::parse(Enrolments().text())->size(), 0u);
}

TEST(Enrolments, DamagedTextIsRefusedByLine) {
  Enrolments table;
  ASSERT_TRUE(table.add(Enrolment::make(kExpires, 1), kNow).ok());
  const std::string text = table.text();
  EXPECT_FALSE(Enrolments::parse("").ok());
  EXPECT_FALSE(Enrolments::parse("other\n").ok());
  for (const std::string& bad :
       {text + "x\n", text.substr(0, text.size() - 20) + "\n", text + text.substr(0, 30)}) {
    EXPECT_EQ(Enrolments::parse(bad).error().code, ErrorCode::config) << bad;
  }
}

}  // namespace
}  // namespace p2pw
