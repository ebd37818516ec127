#include "simulations/src/fleet/network.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace p2pw::fleet {

namespace {
constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kCrumb = 1e-3;  // bytes that are only rounding
}  // namespace

void Network::push(Flow id, std::uint64_t tag, double bytes) {
  FlowState& flow = flows_[id];
  if (flow.queue.empty()) active_.push_back(id);
  flow.queue.push_back({tag, bytes, bytes});
  flow.queued += bytes;
}

double Network::cut(Flow id, const std::function<bool(std::uint64_t)>& unwanted) {
  FlowState& flow = flows_[id];
  double bytes = 0;
  std::erase_if(flow.queue, [&](const Item& item) {
    if (item.bytes < item.size || !unwanted(item.tag)) return false;
    bytes += item.bytes;
    return true;
  });
  flow.queued -= bytes;
  if (flow.queue.empty()) std::erase(active_, id);
  return bytes;
}

void Network::fix(FlowState& flow, double rate) {
  flow.fixed = true;
  flow.rate = rate;
  for (const Load& load : flow.path) {
    LinkState& link = links_[load.link];
    link.left -= rate * load.weight;
    link.weight -= load.weight;
  }
}

void Network::share(double seconds) {
  used_.clear();
  for (Flow id : active_) {
    FlowState& flow = flows_[id];
    flow.fixed = false;
    for (const Load& load : flow.path) {
      LinkState& link = links_[load.link];
      if (!link.in_use) {
        link = {link.rate, link.rate, 0, true};
        used_.push_back(load.link);
      }
      link.weight += load.weight;
    }
  }
  // Flows that want least come first: they are satisfied before any link is full.
  std::vector<std::pair<double, Flow>> wants;
  wants.reserve(active_.size());
  for (Flow id : active_) wants.emplace_back(seconds > 0 ? flows_[id].queued / seconds : kInfinite, id);
  std::sort(wants.begin(), wants.end());
  std::size_t next = 0;
  while (next < wants.size()) {
    double level = kInfinite;
    Link tightest = 0;
    for (Link id : used_) {
      const LinkState& link = links_[id];
      if (link.weight < 1e-9) continue;
      double share = std::max(link.left, 0.0) / link.weight;
      if (share < level) level = share, tightest = id;
    }
    // Satisfying a flow never lowers the level, so all that want no more than it go at once.
    bool satisfied = false;
    for (; next < wants.size(); ++next) {
      FlowState& flow = flows_[wants[next].second];
      if (flow.fixed) continue;
      if (wants[next].first > level) break;
      fix(flow, wants[next].first);
      satisfied = true;
    }
    if (satisfied || next >= wants.size()) continue;
    for (std::size_t i = next; i < wants.size(); ++i) {
      FlowState& flow = flows_[wants[i].second];
      bool through = !flow.fixed && std::any_of(flow.path.begin(), flow.path.end(),
                                                [&](const Load& load) { return load.link == tightest; });
      if (through) fix(flow, level);
    }
    links_[tightest].weight = 0;
  }
  for (Link id : used_) links_[id].in_use = false;
}

void Network::move(double seconds, std::vector<Done>& done) {
  auto first = static_cast<std::ptrdiff_t>(done.size());
  for (Flow id : active_) {
    FlowState& flow = flows_[id];
    double budget = flow.rate * seconds, spent = 0;
    while (!flow.queue.empty() && budget > 0) {
      Item& item = flow.queue.front();
      double bytes = std::min(budget, item.bytes);
      item.bytes -= bytes;
      budget -= bytes;
      spent += bytes;
      flow.queued -= bytes;
      if (item.bytes > kCrumb) break;
      done.push_back({std::min(spent / flow.rate, seconds), id, item.tag});
      flow.queue.pop_front();
    }
    if (flow.queue.empty()) flow.queued = 0;
  }
  std::erase_if(active_, [&](Flow id) { return flows_[id].queue.empty(); });
  std::stable_sort(done.begin() + first, done.end(),
            [](const Done& a, const Done& b) { return std::tie(a.at, a.flow) < std::tie(b.at, b.flow); });
}

void Network::step(double seconds, std::vector<Done>& done) {
  share(seconds);
  move(seconds, done);
}

void Network::allocate() { share(0); }

double Network::finish_next(std::vector<Done>& done) {
  double soonest = kInfinite;
  for (Flow id : active_) {
    const FlowState& flow = flows_[id];
    if (flow.rate > 0) soonest = std::min(soonest, flow.queue.front().bytes / flow.rate);
  }
  if (soonest == kInfinite) return soonest;
  move(soonest * (1 + 1e-12), done);
  return soonest;
}

}  // namespace p2pw::fleet
