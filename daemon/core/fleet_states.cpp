#include "daemon/core/fleet_states.h"

#include <algorithm>
#include <set>

namespace p2pw {
namespace {

constexpr std::size_t kVersionsWithTimes = 64;
constexpr std::size_t kMaxStages = 8;  // of one node and version

// Members are sorted by key; every report of every node passes here.
const Member* find_member(const std::vector<Member>& members, const NodeKey& key) {
  auto it = std::lower_bound(members.begin(), members.end(), key, [](auto& m, auto& k) { return m.key < k; });
  return it != members.end() && it->key == key ? &*it : nullptr;
}

// A report that says nothing new is passed on this much later than the last that was, as a sign of life.
constexpr std::uint64_t kRepeatMillis = 60'000;

bool same_news(const wire::NodeState& a, const wire::NodeState& b) {
  return a.version_staged() == b.version_staged() && a.version_active() == b.version_active() && a.state() == b.state() &&
         a.name() == b.name() && a.region() == b.region() && a.times_size() == b.times_size() &&
         a.problem() == b.problem();
}

constexpr std::size_t kMaxText = 64, kMaxProblem = 300, kMaxTimes = 16;

// It is kept, passed on and shown to people.
wire::NodeState bounded(const wire::NodeState& state, const Region& region) {
  wire::NodeState out = state;
  for (std::string* text : {out.mutable_name(), out.mutable_state(), out.mutable_problem()}) {
    text->resize(std::min(text->size(), text == &out.problem() ? kMaxProblem : kMaxText));
    for (char& c : *text) {
      if (c < 0x20 || c > 0x7e) c = '?';
    }
  }
  out.set_region(region.str());
  out.set_percent(std::min(out.percent(), 100u));
  while (static_cast<std::size_t>(out.times_size()) > kMaxTimes) out.mutable_times()->RemoveLast();
  for (auto& time : *out.mutable_times()) time.mutable_stage()->resize(std::min(time.stage().size(), kMaxText));
  return out;
}

}  // namespace

bool FleetStates::hear(const wire::NodeState& state, const std::vector<Member>& members) {
  auto channel = Channel::parse(state.channel());
  auto node = NodeKey::from(state.node());
  const Member* member = node ? find_member(members, *node) : nullptr;
  if (!channel.ok() || !member) return false;
  auto known = rows_.find(Key{*channel, *node});
  if (known != rows_.end() && state.at_ms() <= known->second.state.at_ms()) return false;
  if (known == rows_.end() && ++channels_of_[*node] > kMaxChannelsOfNode) {
    --channels_of_[*node];
    return false;
  }
  Row& row = rows_[Key{*channel, *node}];
  const wire::NodeState kept = bounded(state, member->region);
  const bool news = known == rows_.end() || !row.live || !same_news(row.state, kept);
  row.state = kept;
  row.region = member->region;
  row.live = true;
  if (news || state.at_ms() >= row.passed_on_ms + kRepeatMillis) {
    row.changed = true;
    row.passed_on_ms = state.at_ms();
  }
  keep_times(row, row.state);
  return news;
}

void FleetStates::keep_times(Row& row, const wire::NodeState& state) {
  for (const wire::StageTime& time : state.times()) {
    Stages& stages = row.times[Version(time.version())];
    if (stages.size() < kMaxStages || stages.contains(time.stage())) stages[time.stage()] = time.at_us();
  }
  while (row.times.size() > kVersionsWithTimes) row.times.erase(row.times.begin());
}

std::map<NodeKey, FleetStates::NodeStages> FleetStates::stages(const Channel& channel, Version version) const {
  std::map<NodeKey, NodeStages> out;
  for (auto& [key, row] : rows_) {
    auto it = row.times.find(version);
    if (key.channel == channel && it != row.times.end()) out[key.node] = {row.state.name(), row.region, it->second};
  }
  return out;
}

std::vector<wire::NodeState> FleetStates::take_changes() {
  std::vector<wire::NodeState> out;
  for (auto& [key, row] : rows_) {
    if (row.changed && row.live) out.push_back(row.state);
    row.changed = false;
  }
  return out;
}

std::vector<wire::NodeState> FleetStates::all() const {
  std::vector<wire::NodeState> out;
  for (auto& [key, row] : rows_) {
    out.push_back(row.state);
    if (!row.live) out.back().set_state("offline");
  }
  return out;
}

void FleetStates::set_members(const std::vector<Member>& members) {
  members_ = members;
  // A node that has given up a channel is no longer waited for.
  std::erase_if(rows_, [&](const auto& entry) {
    const Member* member = find_member(members, entry.first.node);
    const bool given_up = member && !member->follows.has(entry.first.channel);
    if (given_up) --channels_of_[entry.first.node];
    return given_up;
  });
  for (auto& [key, row] : rows_) row.live = find_member(members, key.node) != nullptr;
  // Keys that come and go: those that went are forgotten when there are too many.
  if (rows_.size() <= kMaxRows) return;
  std::erase_if(rows_, [](const auto& entry) { return !entry.second.live; });
  channels_of_.clear();
  for (auto& [key, row] : rows_) ++channels_of_[key.node];
}

void FleetStates::add(Count& count, const Row& row, Version version) {
  ++count.total;
  if (row.state.version_active() >= version.value()) ++count.active;
  if (row.state.version_staged() >= version.value()) ++count.staged;
}

template <class Visit>
void FleetStates::each_node(const Channel& channel, Visit visit) const {
  for (auto& [key, row] : rows_) {
    if (key.channel != channel || !row.live) continue;
    const Member* member = find_member(members_, key.node);
    if (member && !member->trainer) visit(row);
  }
}

FleetStates::Count FleetStates::nodes_staged(const Channel& channel, Version version, const Region* region) const {
  Count count;
  each_node(channel, [&](const Row& row) {
    if (!region || row.region == *region) add(count, row, version);
  });
  return count;
}

FleetStates::Count FleetStates::count(const Channel& channel, Version version, const std::vector<NodeKey>* nodes) const {
  Count count;
  if (!nodes) {
    for (auto& [key, row] : rows_) {
      if (key.channel == channel && row.live) add(count, row, version);
    }
    return count;
  }
  for (const NodeKey& node : *nodes) {
    auto it = rows_.find(Key{channel, node});
    if (it == rows_.end()) {
      ++count.total;
    } else {
      add(count, it->second, version);
    }
  }
  return count;
}

std::vector<NodeKey> FleetStates::live_followers(const Channel& channel) const {
  std::vector<NodeKey> out;
  for (auto& [key, row] : rows_) {
    if (key.channel == channel && row.live) out.push_back(key.node);
  }
  return out;
}

std::vector<Region> FleetStates::incomplete_regions(const Channel& channel, Version version) const {
  std::set<Region> live, complete, begun;
  each_node(channel, [&](const Row& row) {
    live.insert(row.region);
    if (row.state.version_staged() >= version.value()) complete.insert(row.region);
    if (row.state.version_staged() != 0) begun.insert(row.region);
  });
  // A region that takes its first copy does not hold up the others. In a fleet that begins, all of them do.
  if (!begun.empty()) live = begun;
  std::vector<Region> out;
  std::set_difference(live.begin(), live.end(), complete.begin(), complete.end(), std::back_inserter(out));
  return out;
}

}  // namespace p2pw
