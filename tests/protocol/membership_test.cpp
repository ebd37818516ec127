#include "protocol/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protocol/limits.h"
#include "protocol/links.pb.h"
#include "tests/protocol/make_records.h"

namespace p2pw {
namespace {

using namespace p2pw::testing;
using namespace std::chrono_literals;
using ::testing::IsEmpty;

const SteadyTime kStart = SteadyTime() + 1000s;

MemberInfo info(std::uint8_t id, std::string_view in = "eu", std::uint64_t incarnation = 1,
                bool bootstrap = false) {
  MemberInfo out;
  out.member = {blob<NodeKey>(id), region(in), false, bootstrap};
  out.incarnation = incarnation;
  out.endpoints = {{"10.0.0." + std::to_string(id), 7733}};
  out.swarm = Endpoint{"10.0.0." + std::to_string(id), 7734};
  out.member.follows = Follows({channel()});
  out.name = "node-" + std::to_string(id);
  return out;
}
const NodeKey& key_of(const MemberInfo& member) {
  return member.member.key;
}

const MemberInfo kSelf = info(1, "eu", 1, true), kA = info(2), kB = info(3);
const MemberInfo kWest = info(100, "us", 1, true), kFar = info(101, "us");

std::string text(const std::vector<MemberView>& views) {
  std::string out;
  for (const MemberView& view : views) out += view.info.name + ":" + std::string(name_of(view.life)) + " ";
  return out;
}
std::string state(const Membership& members, const MemberInfo& member) {
  const auto view = members.find(key_of(member));
  return view ? std::string(name_of(view->life)) : "gone";
}

TEST(Life, Table) {
  using enum Life;
  using enum LifeEvent;
  for (Life from : {live, suspect, gone}) {
    EXPECT_EQ(next_life(from, heard), live);
    EXPECT_EQ(next_life(from, silent), gone);
    EXPECT_EQ(next_life(from, LifeEvent::left), gone);
  }
  EXPECT_EQ(next_life(live, broken), suspect);
  EXPECT_EQ(next_life(live, quiet), suspect);
  EXPECT_EQ(next_life(gone, broken), gone);
  EXPECT_EQ(next_life(gone, quiet), gone);
}

TEST(Membership, StartsWithItself) {
  Membership members(kSelf);
  EXPECT_EQ(text(members.views()), "node-1:live ");
  EXPECT_TRUE(members.take_changes().empty());
  EXPECT_EQ(state(members, kSelf), "live");
  EXPECT_EQ(members.size(), 1u);
}

TEST(Membership, SilenceTurnsToSuspicionAndThenToAbsence) {
  Membership members(kSelf);
  members.link_up(kA, kStart);
  EXPECT_EQ(text(members.take_changes().all), "node-2:live ");
  EXPECT_TRUE(members.take_changes().empty());
  members.tick(kStart + 2999ms);
  EXPECT_TRUE(members.take_changes().empty());
  members.tick(kStart + 3s);
  EXPECT_EQ(text(members.take_changes().all), "node-2:suspect ");
  EXPECT_TRUE(members.members()[1].suspect);
  members.tick(kStart + 4999ms);
  EXPECT_TRUE(members.take_changes().empty());
  members.tick(kStart + 5s);
  EXPECT_EQ(text(members.take_changes().all), "node-2:gone ");
  EXPECT_EQ(members.members().size(), 1u);
  members.tick(kStart + 6s);
  EXPECT_TRUE(members.take_changes().empty()) << "absence is told once";
}

TEST(Membership, HeartbeatsKeepAlive) {
  Membership members(kSelf);
  members.link_up(kA, kStart);
  members.take_changes();
  for (auto at = kStart; at < kStart + 60s; at += 1s) {
    members.heard(key_of(kA), at);
    members.tick(at + 500ms);
  }
  EXPECT_TRUE(members.take_changes().empty());
  members.heard(key_of(kA), kStart);  // older news
  members.tick(kStart + 61s);
  EXPECT_EQ(state(members, kA), "live");
}

TEST(Membership, SuspicionIsTakenBack) {
  Membership members(kSelf);
  members.link_up(kA, kStart);
  members.tick(kStart + 4s);
  members.take_changes();
  members.heard(key_of(kA), kStart + 4s);
  EXPECT_EQ(text(members.take_changes().all), "node-2:live ");
}

TEST(Membership, BrokenLinkIsSuspectAtOnceAndMayComeBack) {
  Membership members(kSelf);
  members.link_up(kA, kStart);
  members.link_down(key_of(kA), kStart + 1s);
  EXPECT_EQ(state(members, kA), "suspect");
  members.heard(key_of(kA), kStart + 2s);
  EXPECT_EQ(state(members, kA), "suspect") << "nothing can be heard on a broken link";
  members.link_up(kA, kStart + 4s);
  members.tick(kStart + 6s);
  EXPECT_EQ(state(members, kA), "live");
  members.link_down(key_of(kA), kStart + 6s);
  members.tick(kStart + 9s);
  EXPECT_EQ(state(members, kA), "gone") << "5 s after it was last heard";
}

TEST(Membership, StoppedProcessGoesAndReturnsOnTheSameLink) {
  Membership members(kSelf);
  members.link_up(kA, kStart);
  members.take_changes();
  members.tick(kStart + 5s);
  EXPECT_EQ(text(members.take_changes().all), "node-2:gone ");
  members.heard(key_of(kA), kStart + 30s);
  EXPECT_EQ(text(members.take_changes().all), "node-2:live ");
}

TEST(Membership, GoodbyeIsBelievedAtOnce) {
  Membership members(kSelf);
  members.link_up(kA, kStart);
  members.take_changes();
  members.left(key_of(kA), kStart);
  members.heard(key_of(kA), kStart + 1s);  // the goodbye itself, seen late
  members.link_down(key_of(kA), kStart + 1s);
  EXPECT_EQ(text(members.take_changes().all), "node-2:gone ");
}

TEST(Membership, WordOfAWitnessIsTakenAndNotPassedOnToOtherWitnesses) {
  Membership members(kSelf);
  members.link_up(kWest, kStart);
  members.take_changes();
  const std::vector<MemberView> table{{kWest, Life::live}, {kFar, Life::live}, {kSelf, Life::suspect}};
  members.told(key_of(kWest), true, table, kStart);
  const auto changes = members.take_changes();
  EXPECT_EQ(text(changes.all), "node-101:live ");
  EXPECT_THAT(changes.own, IsEmpty());
  EXPECT_EQ(state(members, kSelf), "live") << "nobody else knows better about oneself";
  EXPECT_EQ(text(members.own_views()), "node-1:live node-100:live ");
  EXPECT_EQ(text(members.views()), "node-1:live node-100:live node-101:live ");
}

TEST(Membership, WitnessesWordFollowsItsChanges) {
  Membership members(kSelf);
  const std::vector<MemberView> live{{kFar, Life::live}}, suspect{{kFar, Life::suspect}},
      gone{{kFar, Life::gone}};
  members.told(key_of(kWest), true, live, kStart);
  members.told(key_of(kWest), false, suspect, kStart);
  EXPECT_EQ(state(members, kFar), "suspect");
  members.told(key_of(kWest), false, live, kStart);
  EXPECT_EQ(state(members, kFar), "live");
  members.told(key_of(kWest), false, gone, kStart);
  EXPECT_EQ(state(members, kFar), "gone");
}

TEST(Membership, BestWitnessDecides) {
  Membership members(kSelf);
  members.link_up(kA, kStart);
  const std::vector<MemberView> live{{kA, Life::live}}, gone{{kA, Life::gone}};
  members.told(key_of(kWest), false, live, kStart);
  members.tick(kStart + 4s);
  EXPECT_EQ(state(members, kA), "live") << "our link is quiet, the other's is not";
  members.tick(kStart + 5s);
  EXPECT_EQ(state(members, kA), "live");
  members.told(key_of(kWest), false, gone, kStart + 5s);
  EXPECT_EQ(state(members, kA), "gone");
}

TEST(Membership, NewerIncarnationWinsWhateverOthersSay) {
  Membership members(kSelf);
  members.link_up(kA, kStart);
  MemberInfo restarted = kA;
  restarted.incarnation = 2;
  restarted.swarm = Endpoint{"10.0.0.2", 9999};
  const std::vector<MemberView> word{{restarted, Life::suspect}};
  members.told(key_of(kWest), false, word, kStart);
  EXPECT_EQ(members.find(key_of(kA))->info.swarm->port, 9999);
  EXPECT_EQ(state(members, kA), "suspect") << "our link is to the older start";
  members.link_up(restarted, kStart + 1s);
  EXPECT_EQ(state(members, kA), "live");
  const std::vector<MemberView> old_word{{kA, Life::live}};
  members.told(key_of(kWest), false, old_word, kStart + 1s);
  EXPECT_EQ(members.find(key_of(kA))->info.incarnation, 2u);
}

TEST(Membership, LostWitnessIsBelievedForAWhile) {
  Membership members(kSelf);
  const std::vector<MemberView> table{{kFar, Life::live}};
  members.told(key_of(kWest), true, table, kStart);
  members.witness_lost(key_of(kWest), kStart);
  members.tick(kStart + 29s);
  EXPECT_EQ(state(members, kFar), "live");
  members.tick(kStart + 30s);
  EXPECT_EQ(state(members, kFar), "gone");
}

TEST(Membership, WithAllBootstrapDaemonsDownWhatIsKnownKeepsWorking) {
  Membership members(kA);  // no role
  const std::vector<MemberView> table{{kSelf, Life::live}, {kB, Life::live}};
  members.told(key_of(kSelf), true, table, kStart);
  members.witness_lost(key_of(kSelf), kStart);
  members.tick(kStart + std::chrono::hours(5));
  EXPECT_EQ(text(members.views()), "node-1:live node-2:live node-3:live ");
  // Another one is found that does not know B.
  const std::vector<MemberView> other{{kWest, Life::live}};
  members.told(key_of(kWest), true, other, kStart + std::chrono::hours(5));
  members.tick(kStart + std::chrono::hours(5));
  EXPECT_EQ(text(members.views()), "node-2:live node-100:live ");
}

// It has lost its table with its process; its members are on their way back to it.
TEST(Membership, RestartedWitnessDoesNotEmptyTheTable) {
  Membership members(kA);
  const std::vector<MemberView> table{{kSelf, Life::live}, {kB, Life::live}};
  members.told(key_of(kSelf), true, table, kStart);
  members.witness_lost(key_of(kSelf), kStart + 1s);
  const std::vector<MemberView> fresh{{kSelf, Life::live}};
  members.told(key_of(kSelf), true, fresh, kStart + 3s);
  members.tick(kStart + 4s);
  EXPECT_EQ(state(members, kB), "live");
  const std::vector<MemberView> back{{kB, Life::live}};
  members.told(key_of(kSelf), false, back, kStart + 5s);
  members.tick(kStart + 60s);
  EXPECT_EQ(state(members, kB), "live");
}

TEST(Membership, TableInPartsIsAsGoodAsOneInOnePiece) {
  Membership members(kA);
  const std::vector<MemberView> table{{kSelf, Life::live}, {kB, Life::live}, {kFar, Life::live}},
      first{{kSelf, Life::live}}, rest{{kB, Life::live}, {kFar, Life::live}};
  members.told(key_of(kSelf), true, table, kStart);
  members.take_changes();
  members.told(key_of(kSelf), true, first, kStart + 1s);
  members.told(key_of(kSelf), false, rest, kStart + 1s);
  EXPECT_TRUE(members.take_changes().empty());
  members.tick(kStart + 60s);
  EXPECT_TRUE(members.take_changes().empty());
}

TEST(Membership, MemberThatARestartedWitnessNeverSeesAgainGoes) {
  Membership members(kA);
  const std::vector<MemberView> table{{kSelf, Life::live}, {kB, Life::live}}, fresh{{kSelf, Life::live}};
  members.told(key_of(kSelf), true, table, kStart);
  members.told(key_of(kSelf), true, fresh, kStart + 3s);
  members.tick(kStart + 32s);
  EXPECT_EQ(state(members, kB), "live");
  members.tick(kStart + 33s);
  EXPECT_EQ(state(members, kB), "gone");
}

// Two bootstrap daemons that push to each other: whoever dies leaves both tables, though each has had the
// other's word.
TEST(Membership, NoRumourKeepsItselfAlive) {
  Membership east(kSelf), west(kWest);
  east.link_up(kWest, kStart);
  west.link_up(kSelf, kStart);
  east.link_up(kA, kStart);
  for (auto at = kStart; at < kStart + 20s; at += 500ms) {
    east.heard(key_of(kWest), at);
    west.heard(key_of(kSelf), at);
    if (at < kStart + 2s) east.heard(key_of(kA), at);
    east.tick(at);
    west.tick(at);
    west.told(key_of(kSelf), false, east.take_changes().own, at);
    east.told(key_of(kWest), false, west.take_changes().own, at);
    if (at == kStart + 1s) {
      EXPECT_EQ(state(west, kA), "live");
    }
  }
  EXPECT_EQ(state(east, kA), "gone");
  EXPECT_EQ(state(west, kA), "gone");
  EXPECT_EQ(state(west, kSelf), "live");
}

TEST(Membership, OwnChangeIsPushed) {
  Membership members(kSelf);
  MemberInfo changed = kSelf;
  changed.member.follows = Follows({channel(), channel("other")});
  members.set_self(changed);
  EXPECT_EQ(text(members.take_changes().own), "node-1:live ");
  members.set_self(changed);
  EXPECT_TRUE(members.take_changes().empty());
}

TEST(MemberInfo, WireRoundTrip) {
  MemberView view{info(9, "us", 77, true), Life::suspect};
  view.info.software = "p2pw 0.1";
  wire::MemberEntry entry;
  write_member(view, entry);
  const auto again = parse_member(entry);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(*again, view);
  view.info.swarm.reset();
  write_member(view, entry);
  EXPECT_EQ(parse_member(entry).value(), view);
}

TEST(MemberInfo, EveryFieldIsBounded) {
  const auto refused = [](auto spoil) {
    wire::Hello hello;
    write_hello(info(9), hello);
    spoil(hello);
    return !parse_hello(hello).ok();
  };
  EXPECT_FALSE(refused([](wire::Hello&) {}));
  EXPECT_TRUE(refused([](wire::Hello& h) { h.set_node("short"); }));
  EXPECT_TRUE(refused([](wire::Hello& h) { h.set_region("../x"); }));
  EXPECT_TRUE(refused([](wire::Hello& h) { h.set_region(""); }));
  EXPECT_TRUE(refused([](wire::Hello& h) { h.mutable_swarm()->set_port(70'000); }));
  EXPECT_TRUE(refused([](wire::Hello& h) { h.mutable_endpoints(0)->set_port(0); }));
  EXPECT_TRUE(refused([](wire::Hello& h) { h.mutable_endpoints(0)->set_address("a b"); }));
  EXPECT_TRUE(refused([](wire::Hello& h) {
    for (int i = 0; i < 20; ++i) *h.add_endpoints() = h.endpoints(0);
  }));
  EXPECT_TRUE(refused([](wire::Hello& h) { h.add_channels("UPPER"); }));
  wire::Hello hello;
  write_hello(info(9), hello);
  hello.set_name("\x1b[31m" + std::string(1000, 'x'));
  const auto parsed = parse_hello(hello);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->name.substr(0, 5), "?[31m");
  EXPECT_LE(parsed->name.size(), 128u);
  wire::MemberEntry entry;
  write_member({info(9), Life::live}, entry);
  entry.set_life(static_cast<wire::MemberEntry::Life>(9));
  EXPECT_FALSE(parse_member(entry).ok());
}

}  // namespace
}  // namespace p2pw
