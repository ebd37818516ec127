#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/console.h"
#include "cli/daemon_access.h"
#include "cli/verb.h"

namespace p2pw {
namespace {

struct Options {
  std::string channel;
  bool apply = false;
};

Status gc(const Options& options, Console& console) {
  P2PW_TRY(Channel channel, chosen_channel(console, options.channel));
  P2PW_TRY(ApiClient daemon, connect_daemon(console));
  std::string target = "/v1/channels/" + channel.str() + "/gc";
  auto body = options.apply ? daemon.post(target, "{}") : daemon.get(target);
  if (!body) return body.error();
  auto json = nlohmann::ordered_json::parse(*body, nullptr, false);
  if (!json.is_object() || !json.contains("runs")) return fail(ErrorCode::malformed, "p2pwd sent no list of runs");
  std::string text;
  for (const auto& run : json["runs"]) {
    text += run.value("keep", true) ? "keep  " : options.apply ? "gone  " : "drop  ";
    text += "version " + std::to_string(run.value("version", std::uint64_t{0})) + "  " + run.value("kind", "") + "  " +
            human_bytes(run.value("bytes", std::uint64_t{0})) + "  " + run.value("why", "") + "\n";
  }
  std::uint64_t dropped = json.value("dropped_bytes", std::uint64_t{0});
  text += "keeps " + human_bytes(json.value("kept_bytes", std::uint64_t{0})) +
          (options.apply ? ", dropped " : ", would drop ") + human_bytes(dropped);
  if (!options.apply && dropped > 0) text += " (the daemon does so by itself; p2pw gc --apply does it now)";
  console.answer(json, text);
  return {};
}

Run add_gc(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  verb.add_option("--channel,-c", options->channel, "Which channel, when there are several");
  verb.add_flag("--apply", options->apply, "Drop now what nobody needs; without it nothing is touched");
  return [options](Console& console) { return gc(*options, console); };
}

const VerbRegistration kGc({"gc", VerbGroup::operate, "Tell which bundles are kept on this disk, and why.",
                            "p2pw gc --channel policy", add_gc});

}  // namespace
}  // namespace p2pw
