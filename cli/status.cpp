#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/daemon_access.h"
#include "cli/fleet_text.h"
#include "cli/table.h"
#include "cli/verb.h"

namespace p2pw {
namespace {

constexpr std::size_t kNodesShown = 16;
constexpr std::size_t kLinksShown = 8;
constexpr std::size_t kVersionsShown = 2;

struct Options {
  bool all = false;
};

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
    text += "\nchannel " + c.channel + "  sealed " + version_text(c.version_sealed) +
            (c.step > 0 ? " (step " + std::to_string(c.step) + ")" : "") + "  here: staged " + version_text(c.version_staged) +
            "  active " + version_text(c.version_active) + "  " + c.state + "  head " + c.head +
            (c.publishing ? "  (publishing)" : "") + "\n";
    if (!c.current.empty()) text += "  current: " + c.current + "\n";
    if (c.hook != "none") {
      text += "  engine: " + c.hook + ", " + (c.engine == "known" ? "serves " + c.engine_says : std::string("unknown what it serves"));
      if (c.pause_ms > 0) text += printed(", paused for %.1f ms", c.pause_ms) + printed(" to load for %.1f ms", c.load_ms);
      text += "\n";
    }
    if (!c.problem.empty()) text += "  problem: " + c.problem + "\n";
    if (c.head == "frozen") text += "  frozen: the trainer's daemon has not signed for a minute; is it up and linked?\n";
  }
  return text;
}

std::string mirror(const api::StatusReply& status) {
  const api::MirrorStatus& m = status.mirror;
  if (m.url.empty()) return "";
  std::string text = "\nmirror " + m.url + "  " + (m.writes ? "read and written" : "read only");
  if (m.version > 0) text += "  holds " + version_text(m.version);
  text += "  read " + human_bytes(m.chunk_bytes_read + m.other_bytes_read) + "  written " + human_bytes(m.bytes_written);
  if (m.last_success_ms == 0) {
    text += "  has not answered yet";
  } else if (status.now_ms > m.last_success_ms) {
    text += "  answered " + human_seconds(static_cast<double>(status.now_ms - m.last_success_ms) / 1000) + " ago";
  }
  text += "\n";
  if (m.refused > 0) text += "  refused: " + std::to_string(m.refused) + " objects are not what the publisher signed; p2pw log tells which\n";
  if (!m.problem.empty()) text += "  problem: " + m.problem + "\n";
  return text;
}

std::string regions(const api::StatusReply& status) {
  Table table({"channel", "region", ">nodes", ">active", ">staged", ">offline", "slowest"});
  for (const RegionSummary& r : by_region(status)) {
    std::string slowest;
    if (r.slowest) slowest = name_of(*r.slowest) + ", on " + version_text(r.slowest->version_active);
    if (r.slowest && r.slowest->lag_seconds > 0) slowest += " for " + human_seconds(r.slowest->lag_seconds);
    table.row({r.channel, r.region, std::to_string(r.nodes), std::to_string(r.active), std::to_string(r.staged),
               r.offline > 0 ? std::to_string(r.offline) : "-", slowest});
  }
  return table.empty() ? "\nno nodes have reported yet\n" : "\n" + table.text();
}

std::string staleness(const api::StatusReply& status) {
  std::string text;
  for (const api::Staleness& s : status.staleness) {
    if (s.nodes == 0) continue;
    bool published = std::any_of(status.channels.begin(), status.channels.end(), [&](const api::ChannelStatus& channel) {
      return channel.channel == s.channel && channel.version_sealed != 0;
    });
    if (!published) {
      text += "\n" + s.channel + ": nothing is published yet; on the trainer: p2pw seed DIR --channel " + s.channel + "\n";
      continue;
    }
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

std::string nodes(const api::StatusReply& status, std::size_t most) {
  auto order = worst_first(status);
  Table table({"channel", "region", "node", ">staged", ">active", "state", ">lag", "why"});
  for (std::size_t i = 0; i < std::min(order.size(), most); ++i) {
    const api::NodeStatus* n = order[i];
    table.row({n->channel, n->region, name_of(*n), version_text(n->version_staged), version_text(n->version_active), n->state,
               lag_text(n->lag_seconds), n->why});
  }
  if (table.empty()) return "";
  std::string text = "\n" + table.text();
  if (order.size() > most) {
    const NewestVersions newest = newest_versions(status);
    auto attention = std::count_if(order.begin(), order.end(), [&](auto* n) { return needs_attention(newest, *n); });
    text += std::to_string(order.size() - most) + " more nodes, " +
            std::to_string(std::max<std::ptrdiff_t>(0, attention - static_cast<std::ptrdiff_t>(most))) +
            " of them behind; --all shows them\n";
  }
  return text;
}

std::string links(const api::StatusReply& status, std::size_t most) {
  std::vector<const api::LinkStatus*> order;
  for (const api::LinkStatus& l : status.links) order.push_back(&l);
  std::stable_sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->payload_sent > b->payload_sent; });
  if (order.size() > most) order.resize(most);
  Table table({"link", "region", ">round trip", ">rate", ">clock", ">sent", ">received", ">queued", ">resent"});
  for (const api::LinkStatus* l : order) {
    table.row({name_of(*l), l->region, printed("%.1f ms", l->round_trip_ms), human_bits(l->rate_bits),
               printed("%+.1f ms", l->clock_offset_ms), human_bytes(l->payload_sent), human_bytes(l->payload_received),
               l->queued_bytes > 0 ? human_bytes(l->queued_bytes) : "-",
               l->retransmitted > 0 ? std::to_string(l->retransmitted) : "-"});
  }
  return table.empty() ? "" : "\n" + table.text();
}

std::string copies(const api::StatusReply& status, std::size_t versions) {
  std::map<std::string, std::set<std::uint64_t, std::greater<>>> newest;
  for (const api::CopyStatus& c : status.copies) newest[c.channel].insert(c.version);
  auto shown = [&](const api::CopyStatus& c) {
    const auto& of_channel = newest[c.channel];
    return static_cast<std::size_t>(std::distance(of_channel.begin(), of_channel.find(c.version))) < versions;
  };
  Table table({"channel", ">version", "into region", ">payload", ">copies", ">twice"});
  for (const api::CopyStatus& c : status.copies) {
    if (!shown(c)) continue;
    double share = c.used_bytes == 0 ? 0 : static_cast<double>(c.payload_bytes) / static_cast<double>(c.used_bytes);
    table.row({c.channel, std::to_string(c.version), c.region, human_bytes(c.payload_bytes), printed("%.3f", share),
               human_bytes(c.duplicate_bytes)});
  }
  return table.empty() ? "" : "\n" + table.text();
}

Status status(const Options& options, Console& console) {
  P2PW_TRY(ApiClient daemon, connect_daemon(console));
  P2PW_TRY(api::StatusReply reply, daemon.status());
  std::size_t all = options.all ? SIZE_MAX : 0;
  console.answer(api::to_json(reply),
                 heading(reply) + channels(reply) + mirror(reply) + regions(reply) + nodes(reply, std::max(all, kNodesShown)) + staleness(reply) +
                     links(reply, std::max(all, kLinksShown)) + copies(reply, std::max(all, kVersionsShown)));
  return {};
}

Run add_status(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  verb.add_flag("--all,-a", options->all, "Every node, link and version, however many there are");
  return [options](Console& console) { return status(*options, console); };
}

const VerbRegistration kStatus({"status", VerbGroup::fleet, "Who is on which version, what is slow and why.",
                                "p2pw status\np2pw status --json | jq '.nodes[] | select(.state != \"idle\")'", add_status});

}  // namespace
}  // namespace p2pw
