#include "daemon/core/node_api.h"

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>

#include "daemon/client/version.h"
#include "daemon/core/dashboard.h"
#include "daemon/core/hot_load.h"
#include "daemon/core/node.h"
#include "daemon/core/node_reports.h"

namespace p2pw {
namespace {

template <class T>
ApiResponse reply_of(const T& value) {
  return json_response(to_json(value));
}

// An empty body is one without fields.
template <class T>
Result<T> body_of(const ApiRequest& request) {
  return api::parse<T>(request.body.empty() ? "{}" : request.body);
}

std::uint64_t number(const ApiRequest& request, const std::string& key, std::uint64_t fallback) {
  auto it = request.query.find(key);
  if (it == request.query.end()) return fallback;
  std::uint64_t value = fallback;
  std::from_chars(it->second.data(), it->second.data() + it->second.size(), value);
  return value;
}

double fraction(const ApiRequest& request, const std::string& key, double fallback) {
  auto it = request.query.find(key);
  if (it == request.query.end()) return fallback;
  double value = fallback;
  std::from_chars(it->second.data(), it->second.data() + it->second.size(), value);
  return value;
}

std::string text(const ApiRequest& request, const std::string& key) {
  auto it = request.query.find(key);
  return it == request.query.end() ? "" : it->second;
}

double millis(std::chrono::microseconds time) { return static_cast<double>(time.count()) / 1000; }

api::ChannelStatus channel_status(Node& node, Follower& follower) {
  api::ChannelStatus s;
  s.channel = follower.channel().str();
  s.publisher = follower.config().publisher.line();
  s.version_sealed = follower.version_sealed().value();
  s.version_staged = follower.version_staged().value();
  s.version_active = follower.version_active().value();
  s.state = follower.state();
  if (follower.slots().active()) s.current = follower.slots().current().string();
  s.head = follower.head_state();
  if (const Run* run = follower.log().version(follower.version_sealed()); run && run->open().step) {
    s.step = static_cast<std::uint64_t>(*run->open().step);
  }
  s.publishing = node.publisher() && node.publisher()->publishing(follower.channel());
  s.bundle_store_bytes = follower.bundles().bytes();
  s.problem = follower.problem();
  const EngineFacts& engine = follower.engine();
  s.hook = name_of(follower.config().hook.kind);
  if (follower.config().hook) {
    s.engine = engine.known ? "known" : "unknown";
    s.engine_says = engine.says;
    s.pause_ms = millis(engine.last_load.paused);
    s.load_ms = millis(engine.last_load.loading);
  }
  if (const Run* run = follower.log().version(follower.version_active()); run && run->seal()) {
    s.active_digest = run->seal()->table_hash.hex();
  }
  return s;
}

std::string address_of(const MemberView& view) {
  return view.info.endpoints.empty() ? "" : view.info.endpoints.front().str();
}

api::LinkStatus link_status(Node& node, const NodeKey& peer) {
  api::LinkStatus l;
  l.node = peer.hex();
  l.name = node.name_of_node(peer);
  if (auto view = node.roster().view(peer)) {
    l.region = view->info.member.region.str();
    l.address = address_of(*view);
  }
  if (auto stats = node.hub().stats(peer)) {
    l.round_trip_ms = millis(stats->round_trip);
    l.clock_offset_ms = millis(stats->clock_offset);
    l.rate_bits = stats->rate_bits;
    l.stripes = stats->stripes;
    l.payload_sent = stats->payload_sent;
    l.payload_received = stats->payload_received;
    l.control_sent = stats->control_sent;
    l.control_received = stats->control_received;
    l.queued_bytes = stats->stripe_queue;
    l.retransmitted = stats->retransmitted;
    l.congestion = stats->congestion;
  }
  return l;
}

// Sealed versions that a node does not serve yet.
std::uint64_t lag_versions(Node& node, const wire::NodeState& state) {
  Follower* follower = follower_of(node, state);
  if (!follower || state.state() == "unknown") return 0;
  std::uint64_t sealed = follower->version_sealed().value(), behind = 0;
  for (std::uint64_t v = sealed; v > state.version_active() && sealed - v < 1000; --v) {
    const Run* run = follower->log().version(Version(v));
    if (run && run->state() == RunState::sealed) ++behind;
  }
  return behind;
}

// Nodes of each channel and region that have the newest version that is known here.
using StagedThere = std::map<std::pair<std::string, std::string>, std::size_t>;

Version newest_for(Node& node, const wire::NodeState& state) {
  Follower* follower = follower_of(node, state);
  return follower ? follower->version_sealed() : Version();
}

StagedThere staged_there(Node& node, const std::vector<wire::NodeState>& states) {
  StagedThere there;
  for (const wire::NodeState& s : states) {
    there[{s.channel(), s.region()}] += s.version_staged() >= newest_for(node, s).value();
  }
  return there;
}

api::NodeStatus node_status(Node& node, const wire::NodeState& state, StagedThere& there) {
  double lag = lag_seconds(node, state);
  return {NodeKey::from(state.node()).value_or(NodeKey{}).hex(),
          state.name(),
          state.channel(),
          state.region(),
          state.version_staged(),
          state.version_active(),
          state.state(),
          lag_versions(node, state),
          lag,
          state.percent(),
          why_behind(state, newest_for(node, state), lag, there[{state.channel(), state.region()}])};
}

api::StatusReply status(Node& node) {
  api::StatusReply r;
  r.node = node.key().hex();
  r.name = node.config().node.name;
  r.region = node.config().node.region.str();
  r.role = name_of(node.config().node.role);
  r.software = kSoftwareVersion;
  r.started_ms = to_millis(node.started());
  r.now_ms = to_millis(node.wall_now());
  if (Swarm* swarm = node.swarm()) {
    const SwarmConfinement confinement = swarm->confinement();
    r.swarm = text_of(confinement);
    r.swarm_confined = confinement.whole();
    r.swarm_ended = confinement.ended;
  }
  for (auto& [channel, follower] : node.followers()) r.channels.push_back(channel_status(node, *follower));
  auto states = node.states().all();
  auto there = staged_there(node, states);
  for (const wire::NodeState& state : states) r.nodes.push_back(node_status(node, state, there));
  r.staleness = fleet_staleness(node);
  for (const NodeKey& peer : node.hub().links()) r.links.push_back(link_status(node, peer));
  for (auto& [key, sent] : node.sent()) {
    auto& [channel, version, region] = key;
    api::CopyStatus copy{channel.str(), version.value(), region.str(), sent.payload, 0, sent.duplicate};
    if (Follower* follower = node.follower(channel)) copy.used_bytes = follower->used_bytes(version);
    r.copies.push_back(copy);
  }
  r.mirror = mirror_status(node);
  return r;
}

std::string doing(Node& node, const NodeKey& peer) {
  std::size_t feeding = 0, in_flight = 0;
  for (auto& view : node.spread().feeds().views()) {
    if (view.gateway != peer || view.state != "flowing") continue;
    ++feeding;
    in_flight += view.in_flight;
  }
  if (feeding > 0) {
    return "fed as gateway of " + std::to_string(feeding) + " bundles, " + std::to_string(in_flight) + " chunks on the way";
  }
  std::size_t feeds_us = 0;
  for (auto& view : node.spread().intake().views()) feeds_us += view.upstream == peer && view.state == "receiving";
  if (feeds_us > 0) return "feeds us " + std::to_string(feeds_us) + " bundles";
  return node.hub().linked(peer) ? "idle: nothing is missing on this link" : "no link: not needed between these two";
}

api::PeersReply peers(Node& node) {
  api::PeersReply r;
  for (const MemberView& view : node.roster().views()) {
    const Member& m = view.info.member;
    if (m.key == node.key()) continue;
    api::PeerStatus p;
    p.node = m.key.hex();
    p.name = view.info.name;
    p.region = m.region.str();
    p.trainer = m.trainer;
    p.bootstrap = m.bootstrap;
    p.life = name_of(view.life);
    p.linked = node.hub().linked(m.key);
    p.address = address_of(view);
    if (auto stats = node.hub().stats(m.key)) {
      p.round_trip_ms = millis(stats->round_trip);
      p.rate_bits = stats->rate_bits;
    }
    for (const Channel& channel : m.follows.listed()) p.channels.push_back({channel.str()});
    p.doing = doing(node, m.key);
    r.peers.push_back(std::move(p));
  }
  return r;
}

api::ActionReply action_reply(Follower& follower) {
  return {follower.channel().str(), follower.version_staged().value(), follower.version_active().value(),
          follower.state()};
}

// `sealed`: the nodes that were live when the version was sealed; a version from before this daemon's start has no such
// list, then those that are live now count.
api::WaitReply count_active(Node& node, const Follower& follower, Version version, bool of_live) {
  const auto* nodes = of_live ? nullptr : follower.live_at_seal(version);
  auto count = node.states().count(follower.channel(), version, nodes);
  return {follower.channel().str(), version.value(), count.active, count.total, false};
}

void wait_for_fleet(Node& node, Follower& follower, const ApiRequest& request, ApiServer::Reply reply) {
  Version version(number(request, "version", follower.version_sealed().value()));
  double percent = fraction(request, "percent", 100);
  bool of_live = text(request, "of") == "live";
  auto deadline = node.steady_now() + std::chrono::seconds(std::min<std::uint64_t>(number(request, "timeout", 0), 86'400));
  auto answer = [&node, &follower, version, percent, of_live, deadline, reply]() {
    auto count = count_active(node, follower, version, of_live);
    count.done = count.total > 0 && static_cast<double>(count.active) * 100 >= percent * static_cast<double>(count.total);
    if (!count.done && node.steady_now() < deadline) return false;
    reply(reply_of(count));
    return true;
  };
  if (!answer()) node.on_states(answer);
}

ApiResponse activate(Follower& follower, const ApiRequest& request) {
  auto wanted = body_of<api::ActivateRequest>(request);
  if (!wanted.ok()) return error_response(wanted.error());
  Version version = wanted->version ? Version(wanted->version) : follower.version_staged();
  if (auto done = follower.activate(version); !done.ok()) return error_response(done.error());
  return reply_of(action_reply(follower));
}

// Which bundles lie here and why; with `drop` those that nobody needs go.
ApiResponse gc(Follower& follower, bool drop) {
  nlohmann::ordered_json out = {{"channel", follower.channel().str()}, {"applied", drop}};
  std::uint64_t kept = 0, dropped = 0;
  auto runs = nlohmann::ordered_json::array();
  auto all = follower.retention(drop);
  std::sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.version < b.version; });
  for (const Follower::Kept& run : all) {
    (run.verdict.keep ? kept : dropped) += run.bytes;
    runs.push_back({{"version", run.version.value()}, {"kind", name_of(run.kind)}, {"bytes", run.bytes},
                    {"keep", run.verdict.keep}, {"why", run.verdict.why}});
  }
  out["kept_bytes"] = kept;
  out["dropped_bytes"] = dropped;
  out["runs"] = std::move(runs);
  return json_response(out);
}

void make_sparse(Follower& follower, const ApiRequest& request, const ApiServer::Reply& reply) {
  auto wanted = body_of<api::SparseRequest>(request);
  if (!wanted.ok()) return reply(error_response(wanted.error()));
  follower.sparse().make(Version(wanted->from), Version(wanted->version), [reply](Result<SparseHandOver> made) {
    if (!made.ok()) return reply(error_response(made.error()));
    reply(reply_of(api::SparseReply{made->file.string(), made->from.value(), made->to.value(), made->summary.bytes,
                                         made->summary.tensors, made->summary.elements}));
  });
}

void answer_channel(Node& node, const ApiRequest& request, const ApiServer::Reply& reply) {
  constexpr std::string_view kPrefix = "/v1/channels/";
  auto rest = std::string_view(request.path).substr(kPrefix.size());
  auto slash = rest.find('/');
  auto channel = Channel::parse(rest.substr(0, slash));
  Follower* follower = channel.ok() ? node.follower(*channel) : nullptr;
  if (!follower) {
    return reply(error_response(fail(ErrorCode::not_found, "this daemon follows no channel \"" + std::string(rest.substr(0, slash)) +
                                                               "\"; p2pw status shows which it does, p2pw channel add adds one")));
  }
  if (slash == std::string_view::npos) return reply(error_response(fail(ErrorCode::not_found, "nothing at " + request.path)));
  auto verb = rest.substr(slash + 1);
  if (verb == "versions" && request.method == "GET") {
    return reply(reply_of(versions_report(*follower, number(request, "limit", 100))));
  }
  if (verb == "timeline" && request.method == "GET") {
    Version version(number(request, "version", follower->version_sealed().value()));
    auto report = timeline_report(node, *follower, version);
    return reply(report.ok() ? reply_of(*report) : error_response(report.error()));
  }
  if (verb == "wait" && request.method == "GET") return wait_for_fleet(node, *follower, request, reply);
  if (verb == "gc") return reply(gc(*follower, request.method == "POST"));
  if (verb == "activate" && request.method == "POST") return reply(activate(*follower, request));
  if (verb == "rollback" && request.method == "POST") {
    auto switched = follower->go_back();
    return reply(switched.ok() ? reply_of(action_reply(*follower)) : error_response(switched.error()));
  }
  if (verb == "sparse" && request.method == "POST") return make_sparse(*follower, request, reply);
  if (verb == "release" && request.method == "POST") {
    follower->release_engine();
    return reply(reply_of(action_reply(*follower)));
  }
  reply(error_response(fail(ErrorCode::not_found, "no such action: " + request.method + " " + request.path)));
}

void answer_log(Node& node, const ApiRequest& request, const ApiServer::Reply& reply) {
  auto deadline = node.steady_now() + std::chrono::seconds(std::min<std::uint64_t>(number(request, "wait", 0), 3600));
  auto answer = [&node, request, deadline, reply] {
    std::uint64_t newest = number(request, "newest", 0);
    std::uint64_t after = newest != 0 ? node.events().before_newest(newest, text(request, "channel")) : number(request, "after", 0);
    auto log = node.events().after(after, text(request, "channel"), number(request, "limit", 1000),
                                   number(request, "run", 0));
    if (log.entries.empty() && log.lost == 0 && node.steady_now() < deadline) return false;
    reply(reply_of(log));
    return true;
  };
  if (!answer()) node.on_states(answer);
}

void answer_token(Node& node, const ApiRequest& request, const ApiServer::Reply& reply) {
  auto wanted = body_of<api::TokenRequest>(request);
  if (!wanted.ok()) return reply(error_response(wanted.error()));
  Channel channel;
  if (!wanted->channel.empty()) {
    auto parsed = Channel::parse(wanted->channel);
    if (!parsed.ok()) return reply(error_response(parsed.error()));
    channel = *parsed;
  } else if (node.followers().size() == 1) {
    channel = node.followers().begin()->first;
  } else {
    return reply(error_response(fail(ErrorCode::usage, "this daemon follows several channels; name one with --channel")));
  }
  WallTime expires;
  auto token = node.make_token(wanted->uses, channel, expires);
  if (!token.ok()) return reply(error_response(token.error()));
  reply(reply_of(api::TokenReply{*token, to_millis(expires)}));
}

void answer_rotate(Node& node, const ApiRequest& request, const ApiServer::Reply& reply) {
  auto wanted = body_of<api::RotateRequest>(request);
  if (!wanted.ok()) return reply(error_response(wanted.error()));
  auto rotated = node.rotate_secret(*wanted);
  reply(rotated.ok() ? reply_of(*rotated) : error_response(rotated.error()));
}

}  // namespace

std::vector<api::Staleness> fleet_staleness(Node& node) {
  std::vector<NodeLag> lags;
  for (const wire::NodeState& state : node.states().all()) {
    if (state.state() == "offline" || is_trainer(node, state)) continue;
    lags.push_back({state.channel(), state.state() == "unknown", lag_versions(node, state), lag_seconds(node, state)});
  }
  return staleness_of(lags);
}

void answer_api(Node& node, ApiRequest request, ApiServer::Reply reply) {
  bool get = request.method == "GET";
  if (get && request.path == "/v1/status") return reply(reply_of(status(node)));
  if (get && request.path == "/v1/peers") return reply(reply_of(peers(node)));
  if (get && request.path == "/v1/log") return answer_log(node, request, reply);
  if (get && request.path == "/") return reply({200, std::string(dashboard_page()), "text/html; charset=utf-8"});
  if (get && request.path == "/metrics") return reply({200, metrics_text(node), "text/plain; version=0.0.4"});
  if (request.method == "POST" && request.path == "/v1/fleet-secret") return answer_rotate(node, request, reply);
  if (!get && request.path == "/v1/tokens") return answer_token(node, request, reply);
  if (request.path.starts_with(kHotLoadPath)) return answer_hot_load(node, request, reply);
  if (request.path.starts_with("/v1/channels/")) return answer_channel(node, request, reply);
  reply(error_response(fail(ErrorCode::not_found, "no such resource: " + request.method + " " + request.path)));
}

}  // namespace p2pw
