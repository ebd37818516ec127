#include "cli/wait.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/daemon_access.h"
#include "cli/verb.h"

namespace p2pw {
namespace {

// The daemon answers a long poll after this at the latest, so that there is something to show.
constexpr std::chrono::milliseconds kSlice{2'000};

struct Options {
  std::string channel, active = "100%", of = "sealed";
  std::uint64_t version = 0;
  double timeout = 300;
};

Result<std::uint64_t> newest_sealed(ApiClient& daemon, const Channel& channel) {
  P2PW_TRY(api::StatusReply status, daemon.status());
  for (const api::ChannelStatus& c : status.channels) {
    if (c.channel == channel.str() && c.version_sealed != 0) return c.version_sealed;
  }
  return fail(ErrorCode::not_found, "channel " + channel.str() + " has no sealed version yet: give --version");
}

Status wait(const Options& options, Console& console) {
  P2PW_TRY(Channel channel, chosen_channel(console, options.channel));
  P2PW_TRY(ApiClient daemon, connect_daemon(console));
  FleetWait wanted;
  wanted.channel = channel;
  wanted.of_live = options.of == "live";
  wanted.version = options.version;
  P2PW_TRY(wanted.percent, parse_percent(options.active));
  if (wanted.version == 0) {
    P2PW_TRY(wanted.version, newest_sealed(daemon, channel));
  }
  wanted.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(options.timeout * 1000));
  P2PW_TRY(api::WaitReply reply, wait_for_fleet(daemon, wanted, console));
  console.answer(api::to_json(reply), std::to_string(reply.active) + " of " + std::to_string(reply.total) +
                                          " nodes serve version " + std::to_string(reply.version));
  return {};
}

Run add_wait(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  verb.add_option("--channel,-c", options->channel, "Which channel, when there are several");
  verb.add_option("--version,-v", options->version, "Wait for this version or a higher one (default: the newest sealed)");
  verb.add_option("--active,-a", options->active, "Share of the nodes that must serve it")->capture_default_str();
  verb.add_option("--of", options->of, "Of which nodes: those live when it was sealed, or those live now")
      ->check(CLI::IsMember({"sealed", "live"}))->capture_default_str();
  verb.add_option("--timeout,-t", options->timeout, "Give up after so many seconds, exit code 6")
      ->check(CLI::Range(0.0, 1e7))->capture_default_str();
  return [options](Console& console) { return wait(*options, console); };
}

const VerbRegistration kWait({"wait", VerbGroup::fleet, "Wait until a share of the fleet serves a version.",
                              "p2pw wait --channel policy --version 7 --active 95% --timeout 120", add_wait});

}  // namespace

Result<api::WaitReply> wait_for_fleet(ApiClient& daemon, const FleetWait& wanted, Console& console) {
  auto until = std::chrono::steady_clock::now() + wanted.timeout;
  for (;;) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    ApiClient::WaitQuery query;
    query.channel = wanted.channel;
    query.version = wanted.version;
    query.percent = wanted.percent;
    query.of_live = wanted.of_live;
    query.timeout = std::clamp(left, std::chrono::milliseconds{0}, kSlice);
    P2PW_TRY(api::WaitReply reply, daemon.wait(query));
    console.count("nodes serving v" + std::to_string(wanted.version), reply.active, reply.total);
    if (reply.done) return reply;
    if (left <= std::chrono::milliseconds{0}) {
      console.partial(api::to_json(reply));
      return fail(ErrorCode::timed_out, std::to_string(reply.active) + " of " + std::to_string(reply.total) +
                                            " nodes serve version " + std::to_string(wanted.version) +
                                            " after the time given; `p2pw status` shows which ones lag");
    }
  }
}

}  // namespace p2pw
