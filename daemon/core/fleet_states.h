// What every node said of itself last, for each channel it follows: who is on which version. Kept by every daemon that
// hears reports (bootstrap daemons of a region, the trainer). Pure; control thread only.
#pragma once

#include <map>
#include <vector>

#include "protocol/links.pb.h"
#include "protocol/placement.h"

namespace p2pw {

class FleetStates {
 public:
  struct Key {
    Channel channel;
    NodeKey node;
    auto operator<=>(const Key&) const = default;
  };
  static constexpr std::size_t kMaxChannelsOfNode = 256, kMaxRows = 200'000;
  // A report, of this node or passed on by another; its times are on this daemon's clock already. Older news than known
  // (by the reporting node's clock) are ignored, and so are nodes that are no members. `members`: sorted by key. The
  // region is the member's, texts are cut. True when it says something new; one that does not is passed on only once a
  // minute.
  bool hear(const wire::NodeState& state, const std::vector<Member>& members);
  // When each node reached which stage of a version, in microseconds on this daemon's clock; of the last versions only.
  using Stages = std::map<std::string, std::uint64_t>;
  struct NodeStages {
    std::string name;
    Region region;
    Stages stages;
  };
  std::map<NodeKey, NodeStages> stages(const Channel& channel, Version version) const;

  // Reports that have changed since the last call: to be passed on.
  std::vector<wire::NodeState> take_changes();
  std::vector<wire::NodeState> all() const;
  // Nodes that are gone are kept, as "offline", until forgotten.
  void set_members(const std::vector<Member>& members);

  struct Count {
    std::size_t active = 0, staged = 0, total = 0;
  };
  // How many of `nodes` (or of all live ones, when null) have the version, or a later one.
  Count count(const Channel& channel, Version version, const std::vector<NodeKey>* nodes) const;
  // The same of live nodes that are no trainers, in one region or (null) all.
  Count nodes_staged(const Channel& channel, Version version, const Region* region) const;
  std::vector<NodeKey> live_followers(const Channel& channel) const;
  // Live regions in which no node has staged the version yet. Those in which nobody has staged any are left out while
  // another region has: they are only joining.
  std::vector<Region> incomplete_regions(const Channel& channel, Version version) const;

 private:
  struct Row {
    wire::NodeState state;
    Region region;
    std::map<Version, Stages> times;  // of the last versions that the node spoke of
    bool live = true;
    bool changed = true;
    std::uint64_t passed_on_ms = 0;  // the node's clock in the report that was passed on last
  };
  static void keep_times(Row& row, const wire::NodeState& state);
  static void add(Count& count, const Row& row, Version version);
  // Of live nodes that are no trainers.
  template <class Visit>
  void each_node(const Channel& channel, Visit visit) const;

  std::map<Key, Row> rows_;
  std::map<NodeKey, std::size_t> channels_of_;  // rows of each node
  std::vector<Member> members_;
};

}  // namespace p2pw
