// Daemons' links for tests over real loopback sockets: hubs with recording handlers on one io_context, run
// until a condition holds.
#pragma once

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/link/link_hub_tls.h"
#include "protocol/links.pb.h"
#include "protocol/signing.h"

namespace p2pw::testing {

// Handles io events until `done`, false when that takes longer than a test ever should.
inline bool run_until(boost::asio::io_context& io, const std::function<bool()>& done,
                      std::chrono::seconds bound = std::chrono::seconds(30)) {
  const auto deadline = std::chrono::steady_clock::now() + bound;
  io.restart();
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    io.run_one_for(std::chrono::milliseconds(100));
    if (io.stopped()) io.restart();
  }
  return true;
}

class RecordingHandler : public LinkHandler {
 public:
  struct Message {
    NodeKey peer;
    wire::LinkMessage message;
    Bytes payload;
  };
  void link_up(const NodeKey& peer, const wire::Hello& hello) override {
    ++ups;
    hellos[peer] = hello;
    EXPECT_FALSE(std::exchange(up[peer], true)) << "link_up twice";
    if (on_up) on_up(peer);
  }
  void link_down(const NodeKey& peer, const Error& reason) override {
    ++downs;
    last_reason = reason;
    EXPECT_TRUE(std::exchange(up[peer], false)) << "link_down without link_up";
    if (on_down) on_down(peer);
  }
  void link_message(const NodeKey& peer, const wire::LinkMessage& message, Bytes payload) override {
    EXPECT_TRUE(up[peer]) << "a message without a link";
    messages.push_back({peer, message, std::move(payload)});
    if (on_message) on_message(messages.back());
  }
  Result<wire::EnrolReply> link_enrol(const Bytes& id, const NodeKey& peer) override {
    ++enrolments;
    return on_enrol ? on_enrol(id, peer)
                    : Result<wire::EnrolReply>(fail(ErrorCode::untrusted, "no tokens here"));
  }

  int ups = 0, downs = 0, enrolments = 0;
  Error last_reason;
  std::map<NodeKey, bool> up;
  std::map<NodeKey, wire::Hello> hellos;
  std::vector<Message> messages;
  std::function<void(const NodeKey&)> on_up, on_down;
  std::function<void(const Message&)> on_message;
  std::function<Result<wire::EnrolReply>(const Bytes&, const NodeKey&)> on_enrol;
};

// One daemon's links.
struct TestNode {
  SigningKey signing = SigningKey::generate();
  RecordingHandler handler;
  std::unique_ptr<TlsLinkHub> hub;

  NodeKey key() const { return node_key_of(signing); }
  LinkEndpoint endpoint() const { return hub->listening().at(0); }
};

class LinkWorld : public ::testing::Test {
 protected:
  LinkHubOptions options(const TestNode& node, const std::string& region = "eu") {
    LinkHubOptions made{.identity = std::move(NodeIdentity::make(node.signing)).value()};
    made.hello.set_region(region);
    made.hello.set_name("test");
    made.listen = {{"127.0.0.1", 0}};
    made.fleet_secrets.push_back(secret_.clone());
    return made;
  }
  void start(TestNode& node, LinkHubOptions with) {
    auto hub = TlsLinkHub::start(io_, std::move(with), node.handler);
    ASSERT_TRUE(hub.ok()) << hub.error().message;
    node.hub = std::move(hub).value();
  }
  void start(TestNode& node, const std::string& region = "eu") { start(node, options(node, region)); }
  bool until(const std::function<bool()>& done) { return run_until(io_, done); }
  bool linked(TestNode& a, TestNode& b) { return a.hub->linked(b.key()) && b.hub->linked(a.key()); }
  void link(TestNode& from, TestNode& to) {
    from.hub->dial(to.endpoint(), to.key());
    ASSERT_TRUE(until([&] { return linked(from, to); }));
  }

  boost::asio::io_context io_;
  FleetSecret secret_ = FleetSecret::generate();
};

}  // namespace p2pw::testing
