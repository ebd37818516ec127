#include "daemon/core/timeline.h"

#include <algorithm>
#include <optional>
#include <tuple>

namespace p2pw {
namespace {

using Stages = std::map<std::string, std::uint64_t>;
using Moment = std::optional<std::uint64_t>;

constexpr const char* kOrder[] = {"requested",  "opened",    "first_bundle", "first_byte",
                                  "last_byte",  "sealed",    "staged",       "active"};

Moment at(const Stages& stages, const std::string& stage) {
  auto it = stages.find(stage);
  return it == stages.end() ? Moment() : Moment(it->second);
}

double seconds_between(std::uint64_t from, std::uint64_t to) {
  return static_cast<double>(static_cast<std::int64_t>(to - from)) / 1e6;
}

std::vector<api::StageMoment> moments(const Stages& stages, std::uint64_t start) {
  std::vector<api::StageMoment> out;
  for (const char* stage : kOrder) {
    if (auto when = at(stages, stage)) out.push_back({stage, *when, seconds_between(start, *when)});
  }
  return out;
}

// The last stage that a node has reached counts for who was last.
Moment finished(const Stages& stages) {
  if (auto active = at(stages, "active")) return active;
  return at(stages, "staged");
}

std::vector<api::TimelineRegion> regions_of(const std::vector<TimelineSource>& sources, std::uint64_t start) {
  struct Sum {
    std::uint64_t nodes = 0;
    Stages stages;
  };
  std::map<std::string, Sum> sums;
  for (const TimelineSource& source : sources) {
    if (source.trainer) continue;
    Sum& sum = sums[source.region];
    ++sum.nodes;
    for (const auto& [stage, when] : source.stages) {
      auto [it, fresh] = sum.stages.try_emplace(stage, when);
      if (!fresh) it->second = stage == "first_byte" ? std::min(it->second, when) : std::max(it->second, when);
    }
  }
  std::vector<api::TimelineRegion> out;
  for (auto& [region, sum] : sums) out.push_back({region, sum.nodes, moments(sum.stages, start)});
  return out;
}

class Path {
 public:
  explicit Path(std::uint64_t start) : start_(start), here_(start) {}
  // A step that ends at `until`; none when that is not known.
  void step(const std::string& what, const std::string& node, const std::string& region, Moment until) {
    if (!until) return;
    std::uint64_t end = std::max(here_, *until);
    steps_.push_back({what, node, region, seconds_between(start_, here_), seconds_between(here_, end), false});
    here_ = end;
  }
  std::vector<api::PathStep> take() {
    auto longest = std::max_element(steps_.begin(), steps_.end(),
                                    [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
    if (longest != steps_.end()) longest->longest = true;
    return std::move(steps_);
  }

 private:
  std::uint64_t start_, here_;
  std::vector<api::PathStep> steps_;
};

std::vector<api::PathStep> path_to(const TimelineSource& last, const std::vector<TimelineSource>& sources,
                                   std::uint64_t start) {
  const TimelineSource* trainer = nullptr;
  const TimelineSource* first_there = nullptr;
  for (const TimelineSource& source : sources) {
    if (source.trainer) trainer = &source;
    if (source.region != last.region || source.trainer || !at(source.stages, "first_byte")) continue;
    if (!first_there || *at(source.stages, "first_byte") < *at(first_there->stages, "first_byte")) first_there = &source;
  }
  Path path(start);
  if (trainer) {
    path.step("diff until the first bundle is signed", trainer->name, trainer->region, at(trainer->stages, "first_bundle"));
  }
  if (first_there && first_there != &last) {
    path.step("to the first node of the region", first_there->name, last.region, at(first_there->stages, "first_byte"));
    path.step("within the region to this node", last.name, last.region, at(last.stages, "first_byte"));
  } else {
    path.step("to this node, the region's first", last.name, last.region, at(last.stages, "first_byte"));
  }
  path.step("receiving", last.name, last.region, at(last.stages, "last_byte"));
  if (trainer) path.step("diff until the seal", trainer->name, trainer->region, at(trainer->stages, "sealed"));
  path.step("rebuilding", last.name, last.region, at(last.stages, "staged"));
  path.step("activating", last.name, last.region, at(last.stages, "active"));
  return path.take();
}

}  // namespace

void fill_timeline(const std::vector<TimelineSource>& sources, api::TimelineReply& reply) {
  Moment start;
  const TimelineSource* last = nullptr;
  for (const TimelineSource& source : sources) {
    for (const auto& [stage, when] : source.stages) start = start ? std::min(*start, when) : when;
    Moment end = finished(source.stages);
    if (source.trainer || !end) continue;
    if (!last || *end > *finished(last->stages)) last = &source;
  }
  if (!start) return;
  reply.start_us = *start;
  for (const TimelineSource& source : sources) {
    reply.nodes.push_back({source.node, source.name, source.region, source.trainer, moments(source.stages, *start)});
  }
  std::stable_sort(reply.nodes.begin(), reply.nodes.end(), [](const auto& a, const auto& b) {
    return std::tuple(!a.trainer, a.region, a.name) < std::tuple(!b.trainer, b.region, b.name);
  });
  reply.regions = regions_of(sources, *start);
  if (!last) return;
  reply.seconds = seconds_between(*start, *finished(last->stages));
  reply.path = path_to(*last, sources, *start);
}

}  // namespace p2pw
