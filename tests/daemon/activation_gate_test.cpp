#include "daemon/core/activation_gate.h"

#include <gtest/gtest.h>

#include "daemon/core/staged_poll.h"

namespace p2pw {
namespace {

using namespace std::chrono_literals;
using When = ActivationPolicy::When;

SteadyTime at(std::chrono::milliseconds time) { return SteadyTime{} + 1h + time; }

TEST(ActivationGate, AtOnceOrOnlyWhenAsked) {
  ActivationGate at_once(ActivationPolicy{});
  EXPECT_FALSE(at_once.opens(at(0s), {})) << "nothing waits";
  at_once.staged(Version(3));
  EXPECT_TRUE(at_once.opens(at(0s), {}));
  ActivationGate asked(ActivationPolicy{.when = When::asked});
  asked.staged(Version(3));
  EXPECT_FALSE(asked.opens(at(24h), FleetStates::Count{9, 9, 9}));
}

TEST(ActivationGate, WhenEnoughHaveIt) {
  ActivationGate gate(ActivationPolicy{.when = When::share, .percent = 80});
  gate.staged(Version(3));
  EXPECT_TRUE(gate.wants_count(at(0s)));
  EXPECT_FALSE(gate.opens(at(0s), std::nullopt)) << "not known";
  EXPECT_FALSE(gate.opens(at(0s), FleetStates::Count{0, 0, 0}));
  EXPECT_FALSE(gate.opens(at(0s), FleetStates::Count{0, 7, 10}));
  EXPECT_TRUE(gate.opens(at(0s), FleetStates::Count{0, 8, 10}));
  EXPECT_TRUE(gate.opens(at(0s), FleetStates::Count{0, 4, 5}));
}

TEST(ActivationGate, NotMoreOftenThanAsked) {
  ActivationGate gate(ActivationPolicy{.interval = 60s});
  gate.staged(Version(3));
  ASSERT_TRUE(gate.opens(at(0s), {}));
  gate.activated(Version(3), at(0s));
  EXPECT_FALSE(gate.waiting());
  gate.staged(Version(4));
  EXPECT_FALSE(gate.opens(at(59s), {}));
  EXPECT_FALSE(gate.wants_count(at(59s)));
  gate.staged(Version(5));
  ASSERT_TRUE(gate.opens(at(60s), {}));
  EXPECT_EQ(gate.waiting(), Version(5)) << "version 4 was overtaken";
  gate.activated(Version(4), at(61s));
  EXPECT_EQ(gate.waiting(), Version(5)) << "an older one, by hand";
}

// A trainer, a bootstrap daemon and a node of one region, and messages between them.
struct ThreeNodes {
  struct Node {
    Member self;
    FleetStates states;
    std::optional<StagedPoll> poll;
  };
  std::vector<Node> nodes{3};
  int messages = 0;
  SteadyTime now = at(0s);

  ThreeNodes() {
    std::vector<Member> members;
    for (std::uint8_t i = 0; i < 3; ++i) {
      Member& m = nodes[i].self;
      m.key.data[0] = static_cast<std::uint8_t>(i + 1);
      m.region = Region::parse(i == 0 ? "home" : "eu").value();
      m.trainer = i == 0;
      m.bootstrap = i == 1;
      members.push_back(m);
    }
    for (auto& node : nodes) {
      node.states.set_members(members);
      StagedPoll::World world;
      world.self = [&node]() -> const Member& { return node.self; };
      world.links = [this, &node] {
        std::vector<Member> links;
        for (auto& other : nodes) {
          const bool far = node.self.trainer ? !other.self.bootstrap : other.self.trainer && !node.self.bootstrap;
          if (&other != &node && !far) links.push_back(other.self);
        }
        return links;
      };
      world.send = [this, &node](const NodeKey& to, const wire::LinkMessage& message) {
        ++messages;
        for (auto& other : nodes) {
          if (other.self.key == to) other.poll->message(node.self, message, now);
        }
      };
      node.poll.emplace(node.states, std::move(world));
    }
    for (std::uint64_t i = 0; i < 3; ++i) {
      wire::NodeState state;
      state.set_node(std::string(nodes[i].self.key.text()));
      state.set_channel("policy");
      state.set_region(nodes[i].self.region.str());
      state.set_version_staged(i == 2 ? 7 : 8);
      state.set_at_ms(1);
      for (std::size_t hears : {0, 1}) {
        if (hears == 0 || i != 0) nodes[hears].states.hear(state, members);
      }
    }
  }
  std::optional<FleetStates::Count> ask(bool fleet) {
    return nodes[2].poll->count(Channel::parse("policy").value(), Version(8), fleet, now);
  }
};

TEST(StagedPoll, ANodeLearnsItsRegionsCountFromTheBootstrapDaemon) {
  ThreeNodes w;
  auto count = w.ask(false);
  ASSERT_TRUE(count);
  EXPECT_EQ(count->staged, 1u);
  EXPECT_EQ(count->total, 2u) << "trainers do not count";
  const int before = w.messages;
  w.ask(false);
  EXPECT_EQ(w.messages, before) << "not again at once";
  w.now += StagedPoll::kEvery;
  w.ask(false);
  EXPECT_GT(w.messages, before);
}

TEST(StagedPoll, OfTheFleetThroughTheBootstrapDaemonFromTheTrainer) {
  ThreeNodes w;
  w.ask(true);
  w.now += StagedPoll::kEvery;  // the bootstrap daemon may have had to ask first
  auto count = w.ask(true);
  ASSERT_TRUE(count);
  EXPECT_EQ(count->staged, 1u);
  EXPECT_EQ(count->total, 2u);
}

TEST(StagedPoll, AnswersThatNobodyAskedForOrFromTheWrongOnesAreNotTaken) {
  ThreeNodes w;
  wire::LinkMessage lie;
  lie.mutable_staged_count()->set_channel("policy");
  lie.mutable_staged_count()->set_version(8);
  lie.mutable_staged_count()->set_staged(2);
  lie.mutable_staged_count()->set_total(2);
  EXPECT_TRUE(w.nodes[2].poll->message(w.nodes[1].self, lie, w.now)) << "not asked for";
  w.ask(false);
  Member stranger = w.nodes[1].self;
  stranger.bootstrap = false;
  w.nodes[2].poll->message(stranger, lie, w.now);
  EXPECT_EQ(w.ask(false)->staged, 1u);
}

}  // namespace
}  // namespace p2pw
