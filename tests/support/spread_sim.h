// A small fleet on a virtual clock that runs the real spreading code: links with one-way delays, accesses with rates,
// regional swarms as "everybody in the region has it a little later", crashes, hangs and cuts. Deterministic.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <set>

#include "daemon/mirror/mirror_plan.h"
#include "daemon/spread/spread.h"

namespace p2pw::testing {

using std::chrono::microseconds;
using std::chrono::milliseconds;

class SpreadSim {
 public:
  struct Access {
    double up_bits = 200e6, down_bits = 200e6;
    microseconds delay{0};
    bool cut = false;
    SteadyTime up_free{}, down_free{};
  };
  class Node;

  explicit SpreadSim(SpreadOptions options = {}) : options_(options) {}
  void access(const std::string& region, double bits, milliseconds one_way) {
    accesses_[region] = {bits, bits, one_way, false, {}, {}};
  }
  // The trainer sits at an access of its own, "trainer".
  // `undecided`: bundles that it has yet to decide about.
  Node& add_node(const std::string& region, bool trainer = false, Follows follows = {}, std::set<BundleId> undecided = {});
  // One bundle per `chunks`, published by the trainer at once.
  BundleId publish(std::uint32_t chunks, std::uint32_t chunk_bytes, std::uint64_t version = 1, std::uint32_t index = 0,
                   const std::string& channel = "policy");

  void kill(Node& node);
  void hang(Node& node);    // stops reading and answering; becomes suspect after 3 s
  void resume(Node& node);  // handles then what came in meanwhile
  void cut(const std::string& region, bool cut);
  void run_for(milliseconds time);
  // Runs until the condition holds; false after `limit` of virtual time.
  bool run_until(const std::function<bool()>& done, milliseconds limit);
  bool complete(const BundleId& bundle);  // on all live rollout nodes that follow its channel
  void at(milliseconds delay, std::function<void()> what);

  double copies_into(const std::string& region) const;  // payload sent towards the region / payload of all bundles
  double trainer_copies() const;
  std::uint64_t bytes_into(const std::string& region, const BundleId& bundle) const;
  std::size_t grants_into(const std::string& region) const;
  std::uint64_t stalls() const;  // of everybody's feeds
  void decide(Node& node, const BundleId& bundle, bool wanted);  // about one of its undecided ones
  double read_from_mirror(const std::string& region) const;  // likewise
  double seconds() const { return std::chrono::duration<double>(now_.time_since_epoch()).count(); }
  std::vector<std::unique_ptr<Node>>& nodes() { return nodes_; }
  Node* find(const NodeKey& key);
  Node* gateway_of(const BundleId& bundle, const std::string& region);

 private:
  friend class Node;
  struct Event {
    SteadyTime at;
    std::uint64_t order;
    std::function<void()> run;
    bool operator>(const Event& o) const { return std::tie(at, order) > std::tie(o.at, o.order); }
  };
  void schedule(SteadyTime at, std::function<void()> run) { events_.push({at, next_order_++, std::move(run)}); }
  void tick_later(Node& node);  // for as long as the simulation runs
  void refresh_members();
  std::string access_of(const Node& node) const;
  // When a message of this size, sent now, arrives; nothing when the path is cut.
  static SteadyTime spend(double bits, SteadyTime& free, SteadyTime ready, std::uint64_t bytes);
  std::optional<SteadyTime> transit(Node& from, Node& to, std::uint64_t bytes);
  void deliver_chunk(Node& from, Node& to, const BundleId& bundle, ChunkIndex chunk, Epoch epoch);
  void learn(Node& node, const BundleFacts& facts, bool fresh);
  void swarm(Node& from, const BundleId& bundle, ChunkIndex chunk);
  void look_at_mirror(Node& node);
  void read_mirror(Node& node, const BundleId& bundle, ChunkIndex chunk);
  double copies(std::uint64_t bytes) const;

  SpreadOptions options_;
  SteadyTime now_{};
  std::uint64_t next_order_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::map<std::string, Access> accesses_;
  std::map<BundleId, BundleFacts> bundles_;
  std::map<std::string, std::uint64_t> sent_into_;
  std::map<std::string, std::uint64_t> mirror_read_;
  std::map<std::pair<std::string, BundleId>, std::uint64_t> sent_of_;
  std::map<std::string, std::size_t> grants_;
  std::uint64_t trainer_sent_ = 0;
  std::uint64_t next_bundle_ = 1;
};

class SpreadSim::Node : public SpreadWorld {
 public:
  Node(SpreadSim& sim, Member self) : spread(*this, sim.options_), sim_(sim), self_(self) {}

  SteadyTime now() const override { return sim_.now_; }
  const Member& self() const override { return self_; }
  const std::vector<Member>& members() const override { return members_; }
  bool linked(const NodeKey& peer) const override;
  microseconds round_trip(const NodeKey& peer) const override;
  void send(const NodeKey& peer, const wire::LinkMessage& message) override;
  void introduce(const NodeKey& peer, const BundleId& bundle) override;
  bool send_chunk(const NodeKey& peer, const BundleId& bundle, ChunkIndex chunk, Epoch epoch) override;
  bool unwanted(const BundleId& bundle) const override { return no_use_for.contains(bundle); }
  void cut_queue(const NodeKey&, const BundleId&) override {}
  void note(const BundleId&, const std::string& event, const std::string& detail) override {
    notes.push_back(event + " " + detail);
  }

  const NodeKey& key() const { return self_.key; }
  const std::string& region() const { return self_.region.str(); }
  bool up() const { return alive && !hung; }

  // Its own cable, each way; 0: as fast as anything. Set before anything is published.
  double cable_bits = 0;
  SteadyTime cable_up_free{}, cable_down_free{};
  // It reads shared storage, which has every bundle that was published.
  bool mirror = false;
  std::set<std::pair<BundleId, ChunkIndex>> reading;
  bool alive = true, hung = false, was_suspect = false;
  SteadyTime hung_at{};
  std::vector<std::string> notes;
  // Bundles that it does not take up though they are offered, for good or until it has decided.
  std::set<BundleId> no_use_for, undecided;

 private:
  friend class SpreadSim;
  void set_members(std::vector<Member> members);
  void receive(std::function<void()> message);
  std::vector<Member> members_;
  std::vector<std::function<void()>> unread_;  // while hung

 public:
  Spread spread;  // after what its World needs

 private:
  SpreadSim& sim_;
  Member self_;
};

}  // namespace p2pw::testing
