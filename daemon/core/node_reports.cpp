#include "daemon/core/node_reports.h"

#include <fmt/format.h>

#include "daemon/core/node.h"
#include "daemon/core/timeline.h"

namespace p2pw {
namespace {

api::VersionInfo version_info(const Run& run) {
  api::VersionInfo info;
  const OpenRecord& open = run.open();
  info.version = open.version.value();
  info.parent = open.parent.value();
  info.kind = name_of(open.kind);
  info.step = open.step ? static_cast<std::uint64_t>(*open.step) : 0;
  info.opened_ms = to_millis(run.open_record().issued());
  info.input_bytes = open.input_bytes;
  info.bundles = run.bundles().size();
  if (const SealRecord* seal = run.seal(); seal && run.state() == RunState::sealed) {
    info.sealed = true;
    info.sealed_ms = to_millis(run.seal_record()->issued());
    info.delta_bytes = seal->delta_bytes;
    info.changed_elements = seal->changed_elements;
    info.total_elements = seal->total_elements;
    if (seal->changed_elements > 0) {
      info.bits_per_changed_element = 8.0 * static_cast<double>(seal->delta_bytes) / static_cast<double>(seal->changed_elements);
    }
  }
  return info;
}

}  // namespace

Follower* follower_of(Node& node, const wire::NodeState& state) {
  auto channel = Channel::parse(state.channel());
  return channel.ok() ? node.follower(*channel) : nullptr;
}

bool is_trainer(Node& node, const wire::NodeState& state) {
  auto key = NodeKey::from(state.node());
  const Member* member = key ? node.roster().find(*key) : nullptr;
  return member && member->trainer;
}

double lag_seconds(Node& node, const wire::NodeState& state) {
  Follower* follower = follower_of(node, state);
  if (!follower) return 0;
  for (auto& [version, times] : follower->times()) {
    if (version.value() <= state.version_active() || !times.sealed) continue;
    return std::chrono::duration<double>(node.wall_now() - *times.sealed).count();
  }
  return 0;
}

api::VersionsReply versions_report(const Follower& follower, std::size_t limit) {
  api::VersionsReply reply;
  reply.channel = follower.channel().str();
  const ChannelLog& log = follower.log();
  for (const Run* run : log.open_runs()) {
    if (run->state() == RunState::open && !run->again()) reply.versions.push_back(version_info(*run));
  }
  for (const Run* run = log.version(log.highest_sealed()); run && reply.versions.size() < limit;) {
    reply.versions.push_back(version_info(*run));
    run = run->previous().value() == 0 ? nullptr : log.version(run->previous());
  }
  return reply;
}

Result<api::TimelineReply> timeline_report(Node& node, const Follower& follower, Version version) {
  api::TimelineReply reply;
  reply.channel = follower.channel().str();
  reply.version = version.value();
  reply.clock = node.config().node.name;
  if (const Run* run = follower.log().version(version)) {
    api::VersionInfo info = version_info(*run);
    reply.kind = info.kind;
    reply.step = info.step;
    reply.delta_bytes = info.delta_bytes;
  }
  std::vector<TimelineSource> sources;
  for (auto& [key, seen] : node.states().stages(follower.channel(), version)) {
    TimelineSource source{key.hex(), seen.name, seen.region.str(), false, seen.stages};
    if (auto view = node.roster().view(key)) source.trainer = view->info.member.trainer;
    if (key == node.key()) source.trainer = node.roster().self().trainer;
    sources.push_back(std::move(source));
  }
  fill_timeline(sources, reply);
  if (reply.nodes.empty()) {
    return fail(ErrorCode::not_found, "no times of version " + std::to_string(version.value()) + " of channel " + reply.channel +
                                          " are known here: they are kept for the last 64 versions, since this daemon's "
                                          "start; the trainer's daemon hears of all nodes, others of their region");
  }
  return reply;
}

std::string text_of(const SwarmConfinement& confinement) {
  if (!confinement.own_process) return "in the daemon's process";
  std::string text = "a process of its own";
  text += confinement.landlock > 0 ? fmt::format(", Landlock (ABI {})", confinement.landlock) : ", no Landlock in this kernel";
  return text + (confinement.seccomp ? ", seccomp" : ", no seccomp in this kernel");
}

std::string why_behind(const wire::NodeState& state, Version newest, double lag, std::size_t neighbours) {
  if (state.state() == "offline") return "not heard of: is its daemon up, and does its link port answer?";
  if (!state.problem().empty()) return state.problem();
  if (state.state() == "frozen") return "the trainer's daemon has not signed for a minute";
  if (state.version_active() >= newest.value()) return {};
  std::string wanted = fmt::format("version {}", state.version_staged() > state.version_active() ? state.version_staged()
                                                                                                : newest.value());
  if (state.state() == "staged") return wanted + " is rebuilt and waits to be activated";
  if (state.state() == "activating") return fmt::format("the engine is loading {} (hook)", wanted);
  if (state.state() == "rebuilding") return fmt::format("has all of {}; {} % of its frames are applied", wanted, state.percent());
  std::string text = state.state() == "joining" ? "taking its first checkpoint in" : "receiving " + wanted;
  if (state.percent() > 0) text += fmt::format(", {} % applied", state.percent());
  if (lag < 5) return text;
  // A region that has it leaves the node itself; one that has not, the way there.
  return text + (neighbours > 0 ? fmt::format("; {} of its region have it: its own network or disk is slow", neighbours)
                                : "; nobody in its region has it: the way there is slow or cut");
}

}  // namespace p2pw
