#include "cli/timeline_text.h"

#include <algorithm>
#include <cstdio>

#include "cli/console.h"
#include "cli/table.h"

namespace p2pw {
namespace {

constexpr std::size_t kBar = 24;

std::string seconds_text(double seconds) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.3f s", seconds);
  return buffer;
}

std::string moment(const std::vector<api::StageMoment>& stages, const std::string& stage) {
  for (const api::StageMoment& m : stages) {
    if (m.stage == stage) return seconds_text(m.seconds);
  }
  return "-";
}

std::string trainer_text(const api::TimelineReply& timeline) {
  std::string text;
  for (const api::TimelineNode& node : timeline.nodes) {
    if (!node.trainer) continue;
    text += node.name + " (" + node.region + "): ";
    std::string list;
    for (const api::StageMoment& m : node.stages) {
      std::string stage = m.stage == "first_bundle" ? "first bundle signed" : m.stage;
      list += (list.empty() ? "" : ", ") + stage + " " + seconds_text(m.seconds);
    }
    text += list + "\n";
  }
  return text;
}

// The share of the whole time that a step took, where it took it.
std::string bar(const api::PathStep& step, double whole) {
  if (whole <= 0) return "";
  auto cell = [&](double seconds) { return static_cast<std::size_t>(std::clamp(seconds / whole, 0.0, 1.0) * kBar); };
  std::size_t from = std::min(cell(step.from_seconds), kBar - 1);
  std::size_t until = std::max(cell(step.from_seconds + step.seconds), from + 1);
  return std::string(from, '.') + std::string(until - from, step.longest ? '#' : '=') + std::string(kBar - until, '.');
}

}  // namespace

std::string timeline_text(const api::TimelineReply& timeline) {
  std::string text = "version " + std::to_string(timeline.version) + " of " + timeline.channel;
  if (!timeline.kind.empty()) text += "  " + timeline.kind;
  if (timeline.delta_bytes > 0) text += " of " + human_bytes(timeline.delta_bytes);
  text += "; seconds since the first moment, on the clock of " + timeline.clock + "\n\n" + trainer_text(timeline);

  Table regions({"region", ">nodes", ">first byte", ">last byte", ">staged", ">active"});
  for (const api::TimelineRegion& r : timeline.regions) {
    regions.row({r.region, std::to_string(r.nodes), moment(r.stages, "first_byte"), moment(r.stages, "last_byte"),
                 moment(r.stages, "staged"), moment(r.stages, "active")});
  }
  Table nodes({"node", "region", ">first byte", ">last byte", ">staged", ">active"});
  for (const api::TimelineNode& n : timeline.nodes) {
    if (n.trainer) continue;
    nodes.row({n.name, n.region, moment(n.stages, "first_byte"), moment(n.stages, "last_byte"), moment(n.stages, "staged"),
               moment(n.stages, "active")});
  }
  if (!regions.empty()) text += "\n" + regions.text() + "\n" + nodes.text();
  if (timeline.path.empty()) return text;

  text += "\nthe way to the last node, " + timeline.path.back().node + ", in " + seconds_text(timeline.seconds) +
          " (# took longest)\n";
  Table path({"", "step", "where", ">took"});
  for (const api::PathStep& step : timeline.path) {
    path.row({bar(step, timeline.seconds), step.what, step.node, seconds_text(step.seconds)});
  }
  return text + path.text();
}

}  // namespace p2pw
