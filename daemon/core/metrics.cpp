#include <fmt/format.h>

#include "daemon/core/node.h"
#include "daemon/core/node_api.h"
#include "daemon/core/node_reports.h"

namespace p2pw {
namespace {

class Text {
 public:
  void family(std::string_view name, std::string_view type, std::string_view help) {
    out_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }
  template <class Value>
  void sample(std::string_view name, std::string_view labels, Value value) {
    out_ += labels.empty() ? fmt::format("{} {}\n", name, value) : fmt::format("{}{{{}}} {}\n", name, labels, value);
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

void channels(Node& node, Text& out) {
  out.family("p2pw_version", "gauge", "Version of the channel on this node by stage");
  for (auto& [channel, f] : node.followers()) {
    auto label = [name = channel.str()](const char* stage) { return fmt::format("channel=\"{}\",stage=\"{}\"", name, stage); };
    out.sample("p2pw_version", label("sealed"), f->version_sealed().value());
    out.sample("p2pw_version", label("staged"), f->version_staged().value());
    out.sample("p2pw_version", label("active"), f->version_active().value());
  }
  out.family("p2pw_state", "gauge", "1 for the state that the channel is in");
  for (auto& [channel, f] : node.followers()) {
    out.sample("p2pw_state", fmt::format("channel=\"{}\",state=\"{}\"", channel.str(), f->state()), 1);
  }
  out.family("p2pw_bundle_store_bytes", "gauge", "Bytes of bundle files kept");
  for (auto& [channel, f] : node.followers()) {
    out.sample("p2pw_bundle_store_bytes", fmt::format("channel=\"{}\"", channel.str()), f->bundles().bytes());
  }
}

void engines(Node& node, Text& out) {
  out.family("p2pw_engine_known", "gauge", "1 while the engine's last answer says that it serves what this node reports as active");
  for (auto& [channel, f] : node.followers()) {
    if (f->config().hook) out.sample("p2pw_engine_known", fmt::format("channel=\"{}\"", channel.str()), f->engine().known ? 1 : 0);
  }
  auto family = [&](const char* name, const char* type, const char* help, auto value) {
    out.family(name, type, help);
    for (auto& [channel, f] : node.followers()) {
      if (f->config().hook) out.sample(name, fmt::format("channel=\"{}\"", channel.str()), value(f->engine()));
    }
  };
  auto seconds = [](std::chrono::microseconds time) { return static_cast<double>(time.count()) / 1e6; };
  family("p2pw_engine_loads_total", "counter", "Loads that the engine was told, those that went back included",
         [](const EngineFacts& e) { return e.loads; });
  family("p2pw_activation_failures_total", "counter", "Versions that did not become active when they were tried",
         [](const EngineFacts& e) { return e.failures; });
  family("p2pw_engine_pause_seconds", "gauge", "From pause to continue, newest load",
         [&](const EngineFacts& e) { return seconds(e.last_load.paused); });
  family("p2pw_engine_load_seconds", "gauge", "Of that, the engine's own loading",
         [&](const EngineFacts& e) { return seconds(e.last_load.loading); });
}

void staleness(Node& node, Text& out) {
  auto all = fleet_staleness(node);
  out.family("p2pw_nodes_behind", "gauge", "Nodes by how many sealed versions their engine is behind");
  for (const api::Staleness& s : all) {
    auto row = [&](const char* versions, std::uint64_t nodes) {
      out.sample("p2pw_nodes_behind", fmt::format("channel=\"{}\",versions=\"{}\"", s.channel, versions), nodes);
    };
    row("0", s.current);
    row("1", s.behind_1);
    row("2", s.behind_2);
    row("more", s.behind_more);
    row("unknown", s.unknown);
  }
  out.family("p2pw_staleness_seconds", "gauge", "Over the nodes: since the first version that a node does not serve was sealed");
  for (const api::Staleness& s : all) {
    auto row = [&](const char* quantile, double value) {
      out.sample("p2pw_staleness_seconds", fmt::format("channel=\"{}\",quantile=\"{}\"", s.channel, quantile), value);
    };
    row("0.5", s.seconds_median);
    row("0.95", s.seconds_p95);
    row("1", s.seconds_max);
  }
}

// What a name of a person's choosing must not do is end the label.
std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out;
}

void newest_versions(Node& node, Text& out) {
  auto each = [&](const char* name, const char* help, auto value) {
    out.family(name, "gauge", help);
    for (auto& [channel, f] : node.followers()) {
      auto report = versions_report(*f, 1);
      for (const api::VersionInfo& v : report.versions) {
        if (v.sealed) out.sample(name, fmt::format("channel=\"{}\"", channel.str()), value(v));
      }
    }
  };
  each("p2pw_newest_delta_bytes", "Size of the newest sealed version as published", [](auto& v) { return v.delta_bytes; });
  each("p2pw_newest_input_bytes", "Size of its checkpoint", [](auto& v) { return v.input_bytes; });
  each("p2pw_newest_changed_elements", "Weights that changed in it", [](auto& v) { return v.changed_elements; });
  each("p2pw_newest_sealed_timestamp_seconds", "When it was sealed, on the publisher's clock",
       [](auto& v) { return static_cast<double>(v.sealed_ms) / 1000; });
}

void alarms(Node& node, Text& out) {
  out.family("p2pw_frozen", "gauge", "1 while the trainer's daemon has not signed for a minute");
  for (auto& [channel, f] : node.followers()) {
    out.sample("p2pw_frozen", fmt::format("channel=\"{}\"", channel.str()), f->head_state() == "frozen" ? 1 : 0);
  }
  out.family("p2pw_problem", "gauge", "1 while something keeps this node from getting on; p2pw status tells what");
  for (auto& [channel, f] : node.followers()) {
    out.sample("p2pw_problem", fmt::format("channel=\"{}\"", channel.str()), f->problem().empty() ? 0 : 1);
  }
}

// What this daemon has heard of the others: all of them at the trainer and at bootstrap daemons.
void fleet(Node& node, Text& out) {
  struct Sum {
    std::map<std::string, int> states;
    int behind = 0;
    double lag = 0;
  };
  std::map<std::pair<std::string, std::string>, Sum> sums;
  for (const wire::NodeState& state : node.states().all()) {
    auto channel = Channel::parse(state.channel());
    auto region = Region::parse(state.region());
    Follower* follower = channel.ok() && region.ok() ? node.follower(*channel) : nullptr;
    if (!follower) continue;
    Sum& sum = sums[{channel->str(), region->str()}];
    ++sum.states[escaped(state.state())];
    if (state.state() == "offline") continue;
    sum.behind += state.version_active() < follower->version_sealed().value();
    sum.lag = std::max(sum.lag, lag_seconds(node, state));
  }
  out.family("p2pw_fleet_nodes", "gauge", "Nodes heard of by channel, region and state");
  for (auto& [key, sum] : sums) {
    for (auto& [state, n] : sum.states) {
      out.sample("p2pw_fleet_nodes", fmt::format("channel=\"{}\",region=\"{}\",state=\"{}\"", key.first, key.second, state), n);
    }
  }
  auto each = [&](const char* name, const char* help, auto value) {
    out.family(name, "gauge", help);
    for (auto& [key, sum] : sums) out.sample(name, fmt::format("channel=\"{}\",region=\"{}\"", key.first, key.second), value(sum));
  };
  each("p2pw_fleet_behind", "Live nodes that do not serve the newest sealed version", [](auto& s) { return s.behind; });
  each("p2pw_fleet_lag_seconds", "Longest time that a live node has lacked a sealed version", [](auto& s) { return s.lag; });
}

void link_paths(Node& node, Text& out) {
  struct Row {
    std::string labels;
    LinkStats stats;
  };
  std::vector<Row> rows;
  for (const NodeKey& peer : node.hub().links()) {
    auto stats = node.hub().stats(peer);
    auto view = node.roster().view(peer);
    if (!stats || !view) continue;
    rows.push_back({fmt::format("to=\"{}\",region=\"{}\"", escaped(node.name_of_node(peer)), view->info.member.region.str()), *stats});
  }
  auto each = [&](const char* name, const char* type, const char* help, auto value) {
    out.family(name, type, help);
    for (const Row& row : rows) out.sample(name, row.labels, value(row.stats));
  };
  auto seconds = [](std::chrono::microseconds time) { return static_cast<double>(time.count()) / 1e6; };
  each("p2pw_link_round_trip_seconds", "gauge", "Smoothed round trip of a link", [&](auto& s) { return seconds(s.round_trip); });
  each("p2pw_link_clock_offset_seconds", "gauge", "The peer's clock minus this one's", [&](auto& s) { return seconds(s.clock_offset); });
  each("p2pw_link_rate_bits", "gauge", "What the link carries towards the peer, bits a second", [](auto& s) { return s.rate_bits; });
  each("p2pw_link_queued_bytes", "gauge", "Handed to the link and not yet written", [](auto& s) { return s.stripe_queue; });
  each("p2pw_link_retransmitted_segments", "gauge", "Segments sent again on the connections that stand", [](auto& s) { return s.retransmitted; });
}

void links(Node& node, Text& out) {
  struct Sum {
    std::uint64_t payload = 0, control = 0, received = 0;
  };
  std::map<std::string, Sum> by_region;
  for (const MemberView& view : node.roster().views()) {
    auto stats = node.hub().stats(view.info.member.key);
    if (!stats || view.info.member.key == node.key()) continue;
    Sum& sum = by_region[view.info.member.region.str()];
    sum.payload += stats->payload_sent;
    sum.control += stats->control_sent;
    sum.received += stats->payload_received;
  }
  std::string from = node.config().node.region.str();
  out.family("p2pw_sent_bytes_total", "counter", "Bytes written to links by region of the peer and kind");
  for (auto& [region, sum] : by_region) {
    out.sample("p2pw_sent_bytes_total", fmt::format("from=\"{}\",to=\"{}\",kind=\"chunk\"", from, region), sum.payload);
    out.sample("p2pw_sent_bytes_total", fmt::format("from=\"{}\",to=\"{}\",kind=\"control\"", from, region), sum.control);
  }
  out.family("p2pw_received_bytes_total", "counter", "Chunk payload received over links by region of the peer");
  for (auto& [region, sum] : by_region) {
    out.sample("p2pw_received_bytes_total", fmt::format("from=\"{}\",to=\"{}\"", region, from), sum.received);
  }
  auto counters = node.tls_hub().counters();
  out.family("p2pw_links", "gauge", "Links that stand");
  out.sample("p2pw_links", "", node.hub().links().size());
  out.family("p2pw_link_refusals_total", "counter", "Connections refused during TLS or handshake, by reason");
  for (auto& [code, n] : counters.refused_by_code) {
    out.sample("p2pw_link_refusals_total", fmt::format("code=\"{}\"", code), n);
  }
}

void spreading(Node& node, Text& out) {
  const auto& counters = node.spread().feeds().counters();
  auto family = [&](const char* name, const char* help, auto member) {
    out.family(name, "counter", help);
    for (auto& [region, c] : counters) out.sample(name, fmt::format("to=\"{}\"", region.str()), c.*member);
  };
  family("p2pw_feed_bytes_total", "Chunk payload handed to links towards a region", &FeedCounters::bytes_sent);
  family("p2pw_duplicate_bytes_total", "Of these, acknowledged as there already", &FeedCounters::duplicate_bytes);
  family("p2pw_lost_bytes_total", "Of these, on the way to a gateway that went away", &FeedCounters::lost_bytes);
  family("p2pw_slow_gateways_total", "Bundles taken from a gateway that fell behind the others", &FeedCounters::slow_gateways);
  family("p2pw_gateway_changes_total", "Leases that went to another gateway", &FeedCounters::gateway_changes);
  family("p2pw_leases_granted_total", "Leases granted", &FeedCounters::leases_granted);
  family("p2pw_leases_refused_total", "Leases refused", &FeedCounters::leases_refused);
  family("p2pw_stalls_total", "Feeds taken from a gateway that stopped answering", &FeedCounters::stalls);
  out.family("p2pw_credit_window_bytes", "gauge", "Bytes that may be on the way into a region");
  for (auto& region : node.spread().feeds().regions()) {
    out.sample("p2pw_credit_window_bytes", fmt::format("to=\"{}\"", region.region.str()), region.window);
  }
  out.family("p2pw_credit_in_flight_bytes", "gauge", "Bytes on the way into a region, not yet acknowledged");
  for (auto& region : node.spread().feeds().regions()) {
    out.sample("p2pw_credit_in_flight_bytes", fmt::format("to=\"{}\"", region.region.str()), region.in_flight);
  }
  if (Swarm* swarm = node.swarm()) {
    auto c = swarm->counters();
    out.family("p2pw_swarm_payload_bytes_total", "counter", "Payload in the region's swarm by direction");
    out.sample("p2pw_swarm_payload_bytes_total", "direction=\"sent\"", c.payload_sent);
    out.sample("p2pw_swarm_payload_bytes_total", "direction=\"received\"", c.payload_received);
    out.family("p2pw_swarm_redundant_bytes_total", "counter", "Received in the swarm and not needed");
    out.sample("p2pw_swarm_redundant_bytes_total", "", c.redundant);
    out.family("p2pw_swarm_hash_failures_total", "counter", "Chunks of neighbours that failed their hash");
    out.sample("p2pw_swarm_hash_failures_total", "", c.hash_failures);
    out.family("p2pw_swarm_refused_strangers_total", "counter", "Connections of unknown addresses refused");
    out.sample("p2pw_swarm_refused_strangers_total", "", c.refused_strangers);
  }
}

void mirror(Node& node, Text& out) {
  if (node.mirror() == nullptr) return;
  const MirrorStats& stats = node.mirror()->stats();
  out.family("p2pw_mirror_bytes_total", "counter", "Bytes from and to shared storage");
  out.sample("p2pw_mirror_bytes_total", "direction=\"read\",kind=\"chunk\"", stats.chunk_bytes_read);
  out.sample("p2pw_mirror_bytes_total", "direction=\"read\",kind=\"other\"", stats.other_bytes_read);
  out.sample("p2pw_mirror_bytes_total", "direction=\"written\",kind=\"all\"", stats.bytes_written);
  out.family("p2pw_mirror_failures_total", "counter", "Calls to shared storage that failed, by reason");
  for (auto& [code, count] : stats.failures) out.sample("p2pw_mirror_failures_total", fmt::format("code=\"{}\"", code), count);
  out.family("p2pw_mirror_refused_total", "counter", "Objects in shared storage that are not what the publisher signed");
  out.sample("p2pw_mirror_refused_total", "", stats.refused);
  out.family("p2pw_mirror_success_timestamp_seconds", "gauge", "When shared storage answered last");
  if (stats.last_success) out.sample("p2pw_mirror_success_timestamp_seconds", "", static_cast<double>(to_millis(*stats.last_success)) / 1000);
  out.family("p2pw_mirror_version", "gauge", "Newest version that shared storage is known to hold; only where this node writes");
  for (auto& [channel, mirror] : node.mirrors()) {
    if (mirror->version().value() != 0) out.sample("p2pw_mirror_version", fmt::format("channel=\"{}\"", channel.str()), mirror->version().value());
  }
}

}  // namespace

std::string metrics_text(Node& node) {
  Text out;
  channels(node, out);
  engines(node, out);
  staleness(node, out);
  newest_versions(node, out);
  alarms(node, out);
  fleet(node, out);
  links(node, out);
  link_paths(node, out);
  spreading(node, out);
  mirror(node, out);
  out.family("p2pw_start_time_seconds", "gauge", "When this daemon started");
  out.sample("p2pw_start_time_seconds", "", static_cast<double>(to_millis(node.started())) / 1000);
  out.family("p2pw_members", "gauge", "Live members of the fleet, this one included");
  out.sample("p2pw_members", "", node.roster().members().size());
  return out.take();
}

}  // namespace p2pw
