#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/service.h"
#include "cli/setup.h"
#include "cli/verb.h"
#include "daemon/client/api.h"
#include "daemon/client/clock.h"
#include "daemon/client/delegate.h"
#include "daemon/client/files.h"
#include "daemon/client/fleet_secrets.h"
#include "protocol/enrolment.h"

namespace p2pw {
namespace {

// Any address that a trainer's traffic would leave towards: documentation addresses are routed like the rest.
constexpr const char* kSomewhere = "192.0.2.1";
constexpr std::chrono::hours kTokenLifetime{1};
constexpr std::size_t kMaxEnrolments = 1u << 20;

struct Options {
  std::string channel, region, name, publisher_key;
  setup::ListenOptions listen;
  std::uint32_t uses = 1;
  bool force = false;
  bool dashboard = false;
  bool start = false;
};

Result<Config> make_config(const Options& options, const Console& console) {
  Config config;
  setup::place(config, console);
  if (options.dashboard) setup::add_dashboard(config);
  config.node.name = setup::name_for_people(options.name);
  P2PW_TRY(config.node.region, Region::parse(options.region));
  config.node.role = Role::trainer;
  P2PW_TRY(config.listen, setup::listen_config(options.listen, kSomewhere));
  ChannelConfig channel;
  P2PW_TRY(channel.name, Channel::parse(options.channel));
  config.channels.push_back(channel);
  return config;
}

// An enrolment that the daemon will honour when it starts.
Result<Enrolment> make_enrolment(const StatePaths& paths, std::uint32_t uses) {
  Enrolments table;
  auto text = read_small_file(paths.enrolments(), kMaxEnrolments);
  if (text) {
    P2PW_TRY(table, Enrolments::parse(text.value()));
  }
  Enrolment enrolment = Enrolment::make(wall_clock() + kTokenLifetime, uses);
  P2PW_CHECK(table.add(enrolment, wall_clock()));
  P2PW_CHECK(write_small_file(paths.enrolments(), table.text(), 0600));
  return enrolment;
}

Result<std::string> make_token(const Config& config, const NodeKey& node, std::uint32_t uses) {
  P2PW_TRY(Enrolment enrolment, make_enrolment(config.paths(), uses));
  JoinToken token;
  token.bootstraps.push_back({{config.listen.reachable_at(), config.listen.port}, node});
  token.publisher = config.channels.front().publisher;
  token.channel = config.channels.front().name;
  token.enrolment = enrolment.id;
  token.secret = enrolment.secret;
  token.expires = enrolment.expires;
  return token.encode();
}

Status make_fleet_secret(const StatePaths& paths) {
  P2PW_TRY(std::vector<FleetSecret> held, load_fleet_secrets(paths));
  return held.empty() ? add_fleet_secret(paths, FleetSecret::generate()) : Status{};
}

Status answer(Console& console, const Config& config, const NodeKey& node, const std::string& token, bool start) {
  const ChannelConfig& channel = config.channels.front();
  console.note("Set up the trainer of channel " + channel.name.str() + " at " + config.listen.reachable_at() + ":" +
               std::to_string(config.listen.port) + ".");
  if (!start) console.note(setup::how_to_start(config));
  console.note("On another node:  p2pw join TOKEN --region REGION    with the token below; it is good for one hour.");
  return setup::answer_and_start(console,
                                 {{"token", token},
                                  {"config", config.file.string()},
                                  {"state", config.state.string()},
                                  {"node", node.hex()},
                                  {"channel", channel.name.str()},
                                  {"publisher", channel.publisher.line()},
                                  {"publisher_key", publisher_key_path(config.file).string()}},
                                 token, start);
}

Status init(const Options& options, Console& console) {
  P2PW_TRY(Config config, make_config(options, console));
  if (options.start) {
    P2PW_CHECK(service::can_start(config));
  }
  std::error_code ignored;
  if (!options.force && std::filesystem::exists(config.file, ignored)) return save_config(config, config.file);
  P2PW_CHECK(setup::check_values(config));
  P2PW_CHECK(setup::check_place(config));
  std::filesystem::path key_file = publisher_key_path(config.file);
  if (!options.publisher_key.empty() && options.publisher_key != key_file) {
    P2PW_TRY(SigningKey given, setup::read_secret_key(options.publisher_key, "--publisher-key"));
    P2PW_CHECK(write_small_file(key_file, given.file(), 0600));
  }
  P2PW_TRY(SigningKey publisher, setup::load_or_make_key(key_file));
  config.channels.front().publisher = publisher.verifying_key();

  StatePaths paths = config.paths();
  P2PW_TRY(SigningKey node, setup::load_or_make_key(paths.node_key()));
  P2PW_CHECK(make_fleet_secret(paths));
  P2PW_CHECK(renew_delegate(paths, config.channels.front().name, publisher, wall_clock()));
  P2PW_TRY(std::string token, make_token(config, node_key_of(node), options.uses));
  P2PW_CHECK(setup::give_to_caller(key_file));
  P2PW_CHECK(save_config(config, config.file, options.force));
  P2PW_CHECK(setup::give_to_daemon(config));
  return answer(console, config, node_key_of(node), token, options.start);
}

Run add_init(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  verb.add_option("--channel,-c", options->channel, "Name of the channel that this trainer publishes")->required();
  verb.add_option("--region,-r", options->region, "Region of the trainer")->required();
  verb.add_option("--address", options->listen.address, "Where the nodes reach this machine (default: found out)");
  verb.add_option("--listen", options->listen.listen, "Address to bind, when it is another one");
  verb.add_option("--port", options->listen.port, "TCP port for links")->capture_default_str();
  verb.add_option("--swarm-port", options->listen.swarm_port, "TCP port of the region's swarm")->capture_default_str();
  verb.add_option("--name", options->name, "Name for people (default: the host name)");
  verb.add_option("--publisher-key", options->publisher_key, "Use this key (as `p2pw keygen` or minisign makes it)");
  verb.add_option("--uses", options->uses, "How many nodes may join with the token")->check(CLI::Range(1, 10000));
  verb.add_flag("--dashboard", options->dashboard, "Serve the web page, API and metrics at 127.0.0.1:4712 too");
  verb.add_flag("--start", options->start, "Start the daemon too, now and at every boot: systemctl enable --now p2pwd");
  verb.add_flag("--force", options->force, "Write the configuration anew; keys that are there stay");
  return [options](Console& console) { return init(*options, console); };
}

const VerbRegistration kInit({"init", VerbGroup::setup, "Set up this machine as the trainer; prints a token for a node.",
                              "p2pw init --channel policy --region us-east --start", add_init});

}  // namespace
}  // namespace p2pw
