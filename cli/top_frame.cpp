#include "cli/top_frame.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <map>
#include <tuple>

#include "cli/console.h"
#include "cli/fleet_text.h"
#include "cli/table.h"

namespace p2pw {
namespace {

constexpr std::size_t kRegionsShown = 6;
constexpr std::size_t kLinksShown = 4;

struct Flow {
  std::uint64_t sent_bits = 0, received_bits = 0;
};

// Bits a second over each link since the picture before.
std::map<std::string, Flow> flows(const api::StatusReply& now, const api::StatusReply* before) {
  std::map<std::string, Flow> out;
  if (!before || now.now_ms <= before->now_ms) return out;
  double seconds = static_cast<double>(now.now_ms - before->now_ms) / 1000;
  auto rate = [&](std::uint64_t new_bytes, std::uint64_t old_bytes) {
    return new_bytes < old_bytes ? 0 : static_cast<std::uint64_t>(static_cast<double>(new_bytes - old_bytes) * 8 / seconds);
  };
  for (const api::LinkStatus& l : now.links) {
    for (const api::LinkStatus& old : before->links) {
      if (old.node != l.node) continue;
      out[l.node] = {rate(l.payload_sent, old.payload_sent), rate(l.payload_received, old.payload_received)};
    }
  }
  return out;
}

std::string clock_text(std::uint64_t ms) {
  std::time_t seconds = static_cast<std::time_t>(ms / 1000);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char buffer[16];
  std::strftime(buffer, sizeof buffer, "%H:%M:%S", &utc);
  return buffer;
}

std::string bar(std::size_t part, std::size_t whole) {
  constexpr std::size_t kCells = 16;
  std::size_t filled = whole == 0 ? 0 : part * kCells / whole;
  return "[" + std::string(filled, '#') + std::string(kCells - filled, '.') + "]";
}

class Frame {
 public:
  Frame(std::size_t width, std::size_t height) : width_(width), height_(height) {}
  std::size_t left() const { return height_ - lines_.size(); }
  void line(const std::string& text) {
    if (lines_.size() >= height_) return;
    std::string clean;
    for (char c : text.substr(0, width_)) clean += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
    lines_.push_back(clean);
  }
  // As many lines as fit, `reserve` left free.
  void table(const Table& rows, std::size_t reserve) {
    std::string text = rows.text();
    for (std::size_t at = 0; at < text.size() && left() > reserve;) {
      std::size_t end = text.find('\n', at);
      line(text.substr(at, end - at));
      at = end == std::string::npos ? text.size() : end + 1;
    }
  }
  std::vector<std::string> take() { return std::move(lines_); }

 private:
  std::size_t width_, height_;
  std::vector<std::string> lines_;
};

void channel_lines(const api::StatusReply& now, Frame& frame) {
  const NewestVersions newest_of = newest_versions(now);
  for (const api::ChannelStatus& c : now.channels) {
    std::size_t nodes = 0, active = 0;
    const std::uint64_t newest = newest_of.at(c.channel);
    for (const api::NodeStatus& n : now.nodes) {
      if (n.channel != c.channel || n.state == "offline") continue;
      ++nodes;
      active += n.version_active >= newest;
    }
    frame.line(c.channel + "  version " + version_text(newest) + (c.step ? " (step " + std::to_string(c.step) + ")" : "") + "  " +
               bar(active, nodes) + " active on " + std::to_string(active) + " of " + std::to_string(nodes) +
               (c.head == "frozen" ? "  FROZEN" : "") + (c.publishing ? "  publishing" : ""));
    if (!c.problem.empty()) frame.line("  ! " + c.problem);
  }
}

// The channel stands first where there are several.
std::vector<std::string> with_channel(bool several, std::string channel, std::vector<std::string> cells) {
  if (several) cells.insert(cells.begin(), std::move(channel));
  return cells;
}

Table region_table(const api::StatusReply& now, const std::map<std::string, Flow>& flow) {
  std::map<std::string, std::uint64_t> into;
  for (const api::LinkStatus& l : now.links) {
    if (auto it = flow.find(l.node); it != flow.end()) into[l.region] += it->second.sent_bits;
  }
  const bool several = now.channels.size() > 1;
  std::vector<std::string> headings{"region", ">nodes", ">active", ">staged", ">off", ">sent now", "slowest"};
  Table table(with_channel(several, "channel", std::move(headings)));
  std::size_t shown = 0;
  for (const RegionSummary& r : by_region(now)) {
    if (++shown > kRegionsShown) break;
    std::string slowest = r.slowest ? name_of(*r.slowest) + " on " + version_text(r.slowest->version_active) + ", " +
                                          lag_text(r.slowest->lag_seconds)
                                    : "";
    table.row(with_channel(several, r.channel, {r.region, std::to_string(r.nodes), std::to_string(r.active), std::to_string(r.staged),
               r.offline ? std::to_string(r.offline) : "-", human_bits(into[r.region]), slowest}));
  }
  return table;
}

Table node_table(const api::StatusReply& now) {
  const bool several = now.channels.size() > 1;
  Table table(with_channel(several, "channel", {"node", "region", ">staged", ">active", "state", ">lag", "why"}));
  for (const api::NodeStatus* n : worst_first(now)) {
    table.row(with_channel(several, n->channel.substr(0, 16),
                           {name_of(*n).substr(0, 16), n->region.substr(0, 10), version_text(n->version_staged),
                            version_text(n->version_active), n->state, lag_text(n->lag_seconds), n->why}));
  }
  return table;
}

Table link_table(const api::StatusReply& now, const std::map<std::string, Flow>& flow) {
  std::vector<const api::LinkStatus*> order;
  for (const api::LinkStatus& l : now.links) order.push_back(&l);
  auto busy = [&](const api::LinkStatus* l) {
    auto it = flow.find(l->node);
    return it == flow.end() ? 0 : it->second.sent_bits + it->second.received_bits;
  };
  std::stable_sort(order.begin(), order.end(), [&](auto* a, auto* b) {
    return std::tuple(busy(a), a->payload_sent) > std::tuple(busy(b), b->payload_sent);
  });
  Table table({"link", "region", ">rtt ms", ">out now", ">in now", ">rate", ">sent"});
  for (std::size_t i = 0; i < std::min(order.size(), kLinksShown); ++i) {
    const api::LinkStatus& l = *order[i];
    auto it = flow.find(l.node);
    Flow here = it == flow.end() ? Flow() : it->second;
    char rtt[32];
    std::snprintf(rtt, sizeof rtt, "%.1f", l.round_trip_ms);
    table.row({name_of(l).substr(0, 16), l.region.substr(0, 10), rtt, human_bits(here.sent_bits), human_bits(here.received_bits),
               human_bits(l.rate_bits), human_bytes(l.payload_sent)});
  }
  return table;
}

}  // namespace

std::vector<std::string> top_frame(const api::StatusReply& now, const api::StatusReply* before, std::size_t width,
                                   std::size_t height) {
  Frame frame(width, height);
  auto flow = flows(now, before);
  frame.line("p2pw top  " + now.name + "  " + now.region + "  " + now.role + "  p2pwd " + now.software + "  " +
             clock_text(now.now_ms) + " UTC  " + std::to_string(now.links.size()) + " links   q ends");
  channel_lines(now, frame);
  frame.line("");
  frame.table(region_table(now, flow), 0);
  frame.line("");
  std::size_t links = std::min(now.links.size(), kLinksShown);
  frame.table(node_table(now), std::min(links == 0 ? 0 : links + 2, frame.left()));
  if (links == 0) return frame.take();
  frame.line("");
  frame.table(link_table(now, flow), 0);
  return frame.take();
}

}  // namespace p2pw
