#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/service.h"
#include "cli/setup.h"
#include "cli/verb.h"
#include "daemon/client/files.h"
#include "protocol/token.h"

namespace p2pw {
namespace {

struct Options {
  std::string token, region, name, slots_root;
  setup::ListenOptions listen;
  unsigned slots = 2;
  bool bootstrap = false;
  bool force = false;
  bool dashboard = false;
  bool start = false;
};

Result<Config> make_config(const Options& options, const JoinToken& token, const Console& console) {
  Config config;
  setup::place(config, console);
  if (options.dashboard) setup::add_dashboard(config);
  config.node.name = setup::name_for_people(options.name);
  P2PW_TRY(config.node.region, Region::parse(options.region));
  config.node.bootstrap = options.bootstrap;
  P2PW_TRY(config.listen, setup::listen_config(options.listen, token.bootstraps.front().endpoint.host));
  for (const JoinToken::Bootstrap& entry : token.bootstraps) {
    BootstrapConfig bootstrap;
    bootstrap.address = entry.endpoint.host;
    bootstrap.port = entry.endpoint.port;
    bootstrap.key = entry.node;
    bootstrap.trainer = true;  // for finding the region's own, which the daemon then prefers
    config.bootstrap.push_back(bootstrap);
  }
  ChannelConfig channel;
  channel.name = token.channel;
  channel.publisher = token.publisher;
  channel.slots = options.slots;
  if (!options.slots_root.empty()) channel.root = std::filesystem::absolute(options.slots_root);
  config.channels.push_back(channel);
  return config;
}

Status join(const Options& options, Console& console) {
  P2PW_TRY(std::string text, setup::token_text(options.token));
  P2PW_TRY(JoinToken token, JoinToken::parse(text));
  P2PW_TRY(Config config, make_config(options, token, console));
  if (options.start) {
    P2PW_CHECK(service::can_start(config));
  }
  std::error_code ignored;
  if (!options.force && std::filesystem::exists(config.file, ignored)) return save_config(config, config.file);
  P2PW_CHECK(setup::check_values(config));
  P2PW_CHECK(setup::check_place(config));

  StatePaths paths = config.paths();
  P2PW_TRY(SigningKey node, setup::load_or_make_key(paths.node_key()));
  P2PW_TRY(std::string line, token.encode());
  P2PW_CHECK(write_small_file(paths.enrolment_pending(), line + "\n", 0600));
  P2PW_CHECK(save_config(config, config.file, options.force));
  P2PW_CHECK(setup::give_to_daemon(config));
  console.note("Set up a node of channel " + token.channel.str() + " in region " + config.node.region.str() + " at " +
               config.listen.reachable_at() + ":" + std::to_string(config.listen.port) + ".");
  if (!options.start) console.note(setup::how_to_start(config));
  return setup::answer_and_start(console,
                                 {{"config", config.file.string()},
                                  {"state", config.state.string()},
                                  {"node", node_key_of(node).hex()},
                                  {"channel", token.channel.str()},
                                  {"region", config.node.region.str()}},
                                 config.file.string(), options.start);
}

Run add_join(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  verb.add_option("TOKEN", options->token, "What `p2pw init` or `p2pw token` printed; - reads it from standard input")
      ->required();
  verb.add_option("--region,-r", options->region, "Region of this node")->required();
  verb.add_option("--address", options->listen.address, "Where other nodes reach this machine (default: found out)");
  verb.add_option("--listen", options->listen.listen, "Address to bind, when it is another one");
  verb.add_option("--port", options->listen.port, "TCP port for links")->capture_default_str();
  verb.add_option("--swarm-port", options->listen.swarm_port, "TCP port of the region's swarm")->capture_default_str();
  verb.add_option("--name", options->name, "Name for people (default: the host name)");
  verb.add_option("--slots", options->slots, "2 keeps the old version readable while the new one is built; 1 needs half "
                                             "the room, but `current` is absent meanwhile")
      ->check(CLI::Range(1, 2))->capture_default_str();
  verb.add_option("--root", options->slots_root, "Folder for the slots, for example on a tmpfs (default: in the state folder)");
  verb.add_flag("--bootstrap", options->bootstrap, "Keep the table of members for this region, whoever else does");
  verb.add_flag("--dashboard", options->dashboard, "Serve the web page, API and metrics at 127.0.0.1:4712 too");
  verb.add_flag("--start", options->start, "Start the daemon too, now and at every boot: systemctl enable --now p2pwd");
  verb.add_flag("--force", options->force, "Write the configuration anew; a node key that is there stays");
  return [options](Console& console) { return join(*options, console); };
}

const VerbRegistration kJoin({"join", VerbGroup::setup, "Set up this machine as a node of the fleet that the token is from.",
                              "p2pw join TOKEN --region eu-west --start\n"
                              "ssh trainer p2pw token | p2pw join - --region eu-west --start",
                              add_join});

}  // namespace
}  // namespace p2pw
