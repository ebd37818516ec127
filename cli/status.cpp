#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/daemon_access.h"
#include "cli/table.h"
#include "cli/verb.h"

namespace p2pw {
namespace {

std::string version_text(std::uint64_t version) { return version == 0 ? "-" : std::to_string(version); }

std::string printed(const char* format, double value) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, format, value);
  return buffer;
}

std::string heading(const api::StatusReply& status) {
  std::string text = status.name + " (" + status.node.substr(0, 8) + ")  region " + status.region + "  " + status.role +
                     "  p2pwd " + status.software;
  if (status.now_ms > status.started_ms && status.started_ms != 0) {
    text += "  up " + human_seconds(static_cast<double>(status.now_ms - status.started_ms) / 1000);
  }
  return text + "\n";
}

std::string channels(const api::StatusReply& status) {
  std::string text;
  for (const api::ChannelStatus& c : status.channels) {
    text += "\nchannel " + c.channel + "  sealed " + version_text(c.version_sealed) + "  staged " +
            version_text(c.version_staged) + "  active " + version_text(c.version_active) + "  " + c.state + "  head " +
            c.head + (c.publishing ? "  (publishing)" : "") + "\n";
    if (!c.current.empty()) text += "  current: " + c.current + "\n";
    if (c.hook != "none") {
      text += "  engine: " + c.hook + ", " + (c.engine == "known" ? "serves " + c.engine_says : std::string("unknown what it serves"));
      if (c.pause_ms > 0) text += printed(", paused for %.1f ms", c.pause_ms) + printed(" to load for %.1f ms", c.load_ms);
      text += "\n";
    }
    if (!c.problem.empty()) text += "  problem: " + c.problem + "\n";
  }
  return text;
}

std::string nodes(const api::StatusReply& status) {
  std::vector<const api::NodeStatus*> order;
  for (const api::NodeStatus& n : status.nodes) order.push_back(&n);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::tie(a->channel, a->region, a->name, a->node) < std::tie(b->channel, b->region, b->name, b->node);
  });
  Table table({"channel", "region", "node", ">staged", ">active", "state", ">lag"});
  for (const api::NodeStatus* n : order) {
    table.row({n->channel, n->region, n->name.empty() ? n->node.substr(0, 8) : n->name, version_text(n->version_staged),
               version_text(n->version_active), n->state, n->lag_seconds > 0 ? human_seconds(n->lag_seconds) : "-"});
  }
  return table.empty() ? "\nno nodes have reported yet\n" : "\n" + table.text();
}

std::string staleness(const api::StatusReply& status) {
  std::string text;
  for (const api::Staleness& s : status.staleness) {
    if (s.nodes == 0) continue;
    text += "\n" + s.channel + ": " + std::to_string(s.current) + " of " + std::to_string(s.nodes) + " nodes serve the newest version";
    if (s.behind_1 + s.behind_2 + s.behind_more > 0) {
      text += "; behind by 1: " + std::to_string(s.behind_1) + ", by 2: " + std::to_string(s.behind_2) + ", by more: " +
              std::to_string(s.behind_more) + "; median " + human_seconds(s.seconds_median) + ", 95% " +
              human_seconds(s.seconds_p95) + ", worst " + human_seconds(s.seconds_max);
    }
    if (s.unknown > 0) text += "; unknown: " + std::to_string(s.unknown);
    text += "\n";
  }
  return text;
}

std::string links(const api::StatusReply& status) {
  Table table({"link", "region", ">round trip", ">rate", ">clock", ">sent", ">received"});
  for (const api::LinkStatus& l : status.links) {
    table.row({l.name.empty() ? l.node.substr(0, 8) : l.name, l.region, printed("%.1f ms", l.round_trip_ms),
               human_bits(l.rate_bits), printed("%+.1f ms", l.clock_offset_ms), human_bytes(l.payload_sent),
               human_bytes(l.payload_received)});
  }
  return table.empty() ? "" : "\n" + table.text();
}

std::string copies(const api::StatusReply& status) {
  Table table({"channel", ">version", "into region", ">payload", ">copies", ">twice"});
  for (const api::CopyStatus& c : status.copies) {
    double share = c.used_bytes == 0 ? 0 : static_cast<double>(c.payload_bytes) / static_cast<double>(c.used_bytes);
    table.row({c.channel, std::to_string(c.version), c.region, human_bytes(c.payload_bytes), printed("%.3f", share),
               human_bytes(c.duplicate_bytes)});
  }
  return table.empty() ? "" : "\n" + table.text();
}

Status status(Console& console) {
  P2PW_TRY(ApiClient daemon, connect_daemon(console));
  P2PW_TRY(api::StatusReply reply, daemon.status());
  console.answer(api::to_json(reply), heading(reply) + channels(reply) + nodes(reply) + staleness(reply) + links(reply) + copies(reply));
  return {};
}

Run add_status(CLI::App&) { return status; }

const VerbRegistration kStatus({"status", VerbGroup::fleet, "Who is on which version, what is slow and why.",
                                "p2pw status\np2pw status --json | jq '.nodes[] | select(.state != \"idle\")'", add_status});

}  // namespace
}  // namespace p2pw
