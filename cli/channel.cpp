// Channels of a machine that is set up already; its first one came with `init` or `join`.
#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/channel_add.h"
#include "cli/daemon_access.h"
#include "cli/fleet_text.h"
#include "cli/table.h"
#include "cli/verb.h"

namespace p2pw {
namespace {

// What the daemon says of a channel: "idle", ..., or why it says nothing.
std::string state_of(const Result<api::StatusReply>& status, const std::string& channel) {
  if (!status) return "no daemon answers";
  for (const api::ChannelStatus& known : status->channels) {
    if (known.channel == channel) return known.state;
  }
  return "restart p2pwd";
}

Status list(Console& console) {
  P2PW_TRY(Config config, console.config());
  const auto status = ApiClient(config.api_socket(), interrupted).status();
  auto channels = nlohmann::ordered_json::array();
  Table table({"channel", "state", ">slots", "current", "publisher"});
  for (const ChannelConfig& channel : config.channels) {
    const std::string name = channel.name.str(), state = state_of(status, name);
    const std::string current = (config.channel_root(channel.name) / "current").string();
    table.row({name, state, std::to_string(channel.slots), current, channel.publisher.line()});
    channels.push_back({{"channel", name},
                        {"state", state},
                        {"slots", channel.slots},
                        {"current", current},
                        {"publisher", channel.publisher.line()}});
  }
  console.answer({{"config", config.file.string()}, {"channels", channels}},
                 table.empty() ? "no channels in " + config.file.string() : table.text());
  return {};
}

Status channel(const std::string& what, const ChannelAdd& add, Console& console) {
  if (what == "add") return add_channel(add, console);
  if (!add.channel.empty())
    return fail(ErrorCode::usage, "`p2pw channel list` lists all: leave \"" + add.channel + "\" away");
  return list(console);
}

Run add_channel_verb(CLI::App& verb) {
  auto what = std::make_shared<std::string>();
  auto add = std::make_shared<ChannelAdd>();
  verb.add_option("what", *what, "add or list")->required()->check(CLI::IsMember({"add", "list"}));
  verb.add_option("CHANNEL", add->channel,
                  "add: its name; on a node also what `p2pw token --channel NAME` printed on the "
                  "trainer, or - to read that from standard input");
  verb.add_option("--publisher", add->publisher,
                  "On a node, with a name: the public line of the key that publishes it, as "
                  "`p2pw channel list` shows it on the trainer")
      ->type_name("LINE");
  verb.add_option("--slots", add->slots,
                  "On a node: 2 keeps the old version readable while the new one is built; 1 needs half "
                  "the room, but `current` is absent meanwhile")
      ->check(CLI::Range(1, 2))
      ->capture_default_str();
  verb.add_option("--root", add->root,
                  "Folder for the slots, for example on a tmpfs (default: in the state folder)")
      ->type_name("DIR");
  auto* given = verb.add_option("--publisher-key", add->key_file,
                                "On the trainer: sign with a copy of this key (default: the "
                                "key that `init` made)")
                    ->type_name("FILE");
  verb.add_flag("--new-key", add->new_key, "On the trainer: make a key for this channel alone")
      ->excludes(given);
  verb.add_flag("--restart", add->restart, "Restart the daemon too: systemctl restart p2pwd");
  return [what, add](Console& console) { return channel(*what, *add, console); };
}

const VerbRegistration kChannel({"channel", VerbGroup::setup,
                                 "Publish or follow one more channel on this machine; list them.",
                                 "p2pw channel add critic --restart\n"
                                 "ssh trainer p2pw token --channel critic | p2pw channel add - --restart\n"
                                 "p2pw channel list",
                                 add_channel_verb});

}  // namespace
}  // namespace p2pw
