#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/daemon_access.h"
#include "cli/verb.h"

namespace p2pw {
namespace {

struct Options {
  std::string channel;
  std::uint64_t version = 0;
  bool local = false;
};

Status answer(Console& console, const Result<api::ActionReply>& reply) {
  if (!reply) return reply.error();
  const api::ActionReply& r = *reply;
  console.answer(api::to_json(r), "channel " + r.channel + ": staged " + std::to_string(r.version_staged) + ", active " +
                                      std::to_string(r.version_active) + ", " + r.state);
  return {};
}

Status activate(const Options& options, Console& console) {
  P2PW_TRY(Channel channel, chosen_channel(console, options.channel));
  P2PW_TRY(ApiClient daemon, connect_daemon(console));
  api::ActivateRequest request;
  request.version = options.version;
  return answer(console, daemon.activate(channel, request));
}

Status rollback(const Options& options, Console& console) {
  P2PW_TRY(Channel channel, chosen_channel(console, options.channel));
  if (!options.local) {
    return fail(ErrorCode::usage, "versions only rise: to take the fleet back, publish the older checkpoint again "
                                  "(p2pw seed DIR --channel " + channel.str() + "); to switch this node alone to the slot "
                                  "that it still has, give --local");
  }
  P2PW_TRY(ApiClient daemon, connect_daemon(console));
  return answer(console, daemon.rollback(channel));
}

Status release(const Options& options, Console& console) {
  P2PW_TRY(Channel channel, chosen_channel(console, options.channel));
  P2PW_TRY(ApiClient daemon, connect_daemon(console));
  return answer(console, daemon.release(channel));
}

std::shared_ptr<Options> channel_option(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  verb.add_option("--channel,-c", options->channel, "Which channel, when there are several");
  return options;
}

Run add_activate(CLI::App& verb) {
  auto options = channel_option(verb);
  verb.add_option("--version,-v", options->version, "Only if this is the staged one");
  return [options](Console& console) { return activate(*options, console); };
}

Run add_rollback(CLI::App& verb) {
  auto options = channel_option(verb);
  verb.add_flag("--local", options->local, "This node only, to the slot that still stands");
  return [options](Console& console) { return rollback(*options, console); };
}

Run add_release(CLI::App& verb) {
  auto options = channel_option(verb);
  return [options](Console& console) { return release(*options, console); };
}

const VerbRegistration kActivate({"activate", VerbGroup::operate, "Make the staged version active on this node now.",
                                  "p2pw activate --channel policy", add_activate});
const VerbRegistration kRollback({"rollback", VerbGroup::operate, "Switch this node back to the version before.",
                                  "p2pw rollback --local --channel policy", add_rollback});
const VerbRegistration kRelease({"release", VerbGroup::operate,
                                 "Tell the daemon that the engine no longer reads the old slot.",
                                 "p2pw release --channel policy", add_release});

}  // namespace
}  // namespace p2pw
