#include "daemon/core/roster.h"

#include <gtest/gtest.h>

#include "protocol/member_info.h"
#include "tests/support/fake_links.h"

namespace p2pw::testing {
namespace {

using namespace std::chrono_literals;

// One daemon's membership over links without sockets.
class RosterNode : public LinkHandler {
 public:
  RosterNode(FakeLinks& net, std::uint8_t number, bool bootstrap, std::vector<LinkEndpoint> configured) : net_(net) {
    MemberInfo& self = options_.self;
    self.member.key.data[0] = number;
    self.member.region = Region::parse("eu").value();
    self.member.bootstrap = bootstrap;
    self.incarnation = 1;
    self.name = "n" + std::to_string(number);
    self.member.follows = Follows({Channel::parse("policy").value()});
    const LinkEndpoint at = FakeLinks::endpoint_of(self.member.key);
    self.endpoints = {Endpoint{at.host, at.port}};
    options_.configured = std::move(configured);
    options_.configured_keys.resize(options_.configured.size());
    wire::Hello hello;
    write_hello(self, hello);
    hub_ = &net.add(self.member.key, hello, *this);
    roster_ = std::make_unique<Roster>(*hub_, options_, Roster::Events{});
    roster_->start(net.now());
    tick();
  }
  const NodeKey& key() const { return options_.self.member.key; }
  bool linked(const RosterNode& other) const { return hub_->linked(other.key()); }

  void link_up(const NodeKey& peer, const wire::Hello& hello) override { roster_->link_up(peer, hello, net_.now()); }
  void link_down(const NodeKey& peer, const Error&) override {
    ++downs;
    roster_->link_down(peer, net_.now());
  }
  void link_message(const NodeKey& peer, const wire::LinkMessage& message, Bytes) override {
    if (message.has_members()) roster_->members_message(peer, message.members(), net_.now());
  }
  Result<wire::EnrolReply> link_enrol(const Bytes&, const NodeKey&) override { return fail(ErrorCode::usage, "not here"); }

  int downs = 0;

 private:
  void tick() {
    roster_->tick(net_.now());
    net_.after(100ms, [this] { tick(); });
  }
  FakeLinks& net_;
  Roster::Options options_;
  LoopbackHub* hub_ = nullptr;
  std::unique_ptr<Roster> roster_;
};

// Found by its address first, as a member of the same region then.
TEST(Roster, ABootstrapDaemonThatIsConfiguredWithoutItsKeyStaysLinked) {
  FakeLinks net;
  net.set_default_path({.delay = 2ms});
  RosterNode bootstrap(net, 1, true, {});
  RosterNode node(net, 2, false, {FakeLinks::endpoint_of(bootstrap.key())});
  ASSERT_TRUE(net.run_until([&] { return node.linked(bootstrap); }, 10s));
  net.run_for(20s);
  EXPECT_TRUE(node.linked(bootstrap));
  EXPECT_EQ(node.downs, 0);
}

}  // namespace
}  // namespace p2pw::testing
