#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/daemon_access.h"
#include "cli/setup.h"
#include "cli/verb.h"
#include "daemon/client/clock.h"
#include "daemon/client/config_edit.h"
#include "daemon/client/delegate.h"
#include "daemon/client/files.h"
#include "protocol/limits.h"

namespace p2pw {
namespace {

struct Options {
  std::string what, channel, accept;
  std::vector<std::string> without;
  bool finish = false;
};

Status fleet_secret(const Options& options, Console& console) {
  P2PW_TRY(ApiClient daemon, connect_daemon(console));
  api::RotateRequest request;
  for (const std::string& key : options.without) request.without += (request.without.empty() ? "" : ",") + key;
  request.finish = options.finish;
  P2PW_TRY(api::RotateReply reply, daemon.rotate_secret(request));
  if (reply.finished) {
    console.note("Links are proven with secret " + reply.secret_id + " alone from now on. Older ones are kept for older lineages.");
  } else {
    console.note("The new secret " + reply.secret_id + " is on its way to " + std::to_string(reply.members) +
                 " members; versions are sealed with it from now on, links may still be proven with the old one.");
    console.note("When every node has it:  p2pw rotate fleet-secret --finish");
  }
  console.answer(api::to_json(reply), reply.secret_id);
  return {};
}

// The new key beside the old one, which stays as FILE.old; a crash leaves one of both in force.
Result<SigningKey> replace_key(const std::filesystem::path& file) {
  P2PW_TRY(std::string old, read_secret_file(file, limits::kMaxKeyFileBytes));
  P2PW_CHECK(write_small_file(file.string() + ".old", old, 0600));
  SigningKey key = SigningKey::generate();
  P2PW_CHECK(write_small_file(file, key.file(), 0600));
  return key;
}

Status node_key(Console& console) {
  P2PW_TRY(Config config, daemon_config(console));
  P2PW_TRY(SigningKey key, replace_key(config.paths().node_key()));
  P2PW_CHECK(setup::give_to_daemon(config));
  const std::string hex = node_key_of(key).hex();
  console.note("The key is used from the next start of p2pwd; the old one is kept as node.key.old.");
  console.note("Where an [[allow]] list or a [[bootstrap]] entry names this node, put the new key in first.");
  console.answer({{"node", hex}}, hex);
  return {};
}

// Every channel of the old key gets the new one.
Status replace_publisher(ConfigText& file, const StatePaths& paths, const VerifyingKey& old, const SigningKey& key) {
  const std::vector<ChannelConfig> channels = file.config.channels;
  for (const ChannelConfig& entry : channels) {
    if (entry.publisher != old) continue;
    P2PW_CHECK(renew_delegate(paths, entry.name, key, wall_clock()));
    P2PW_CHECK(set_publisher(file, entry.name, key.verifying_key()));
  }
  return {};
}

// The key that all channels share, unless a channel with a key of its own is named.
Result<std::filesystem::path> publisher_key_file(const Config& config, const std::string& channel) {
  const auto common = publisher_key_path(config.file);
  if (channel.empty()) return common;
  P2PW_TRY(Channel name, Channel::parse(channel));
  const auto file = publisher_key_path(config.file, name);
  if (file == common && config.channels.size() > 1) {
    return fail(ErrorCode::usage, "channel " + channel + " has no key of its own: without --channel, " + common.string() +
                                      " is replaced for all channels that have it");
  }
  return file;
}

Result<std::string> make_publisher(ConfigText& text_of, const Config& config, const std::string& channel, Console& console) {
  if (config.node.role != Role::trainer) {
    return fail(ErrorCode::usage, "publisher keys are made on the trainer; here: p2pw rotate publisher-key --accept LINE");
  }
  P2PW_TRY(const std::filesystem::path file, publisher_key_file(config, channel));
  P2PW_TRY(SigningKey old, setup::read_secret_key(file));
  P2PW_TRY(SigningKey key, replace_key(file));
  P2PW_CHECK(setup::give_to_caller(file));
  P2PW_CHECK(replace_publisher(text_of, config.paths(), old.verifying_key(), key));
  console.note("On every node" + std::string(config.channels.size() > 1 ? ", for each of its channels" : "") +
               ":  p2pw rotate publisher-key --accept " + key.verifying_key().line());
  return key.verifying_key().line();
}

Status publisher_key(const Options& options, Console& console) {
  P2PW_TRY(Config config, daemon_config(console));
  P2PW_TRY(ConfigText text, load_config_text(config.file));
  P2PW_CHECK(can_replace(config.file));
  const std::string before = text.text;
  std::string line = options.accept;
  if (options.accept.empty()) {
    P2PW_TRY(line, make_publisher(text, config, options.channel, console));
  } else {
    P2PW_TRY(VerifyingKey key, VerifyingKey::parse(options.accept));
    P2PW_TRY(Channel channel, chosen_channel(console, options.channel));
    P2PW_CHECK(set_publisher(text, channel, key));
  }
  P2PW_CHECK(replace_config(config.file, before, text.text));
  P2PW_CHECK(setup::give_to_daemon(config));
  console.note("Restart p2pwd. What is active stays active until the new key's first version, an anchor, has come.");
  console.answer({{"publisher", line}}, line);
  return {};
}

Status rotate(const Options& options, Console& console) {
  if (options.what != "fleet-secret" && (options.finish || !options.without.empty())) {
    return fail(ErrorCode::usage, "--finish and --without belong to fleet-secret");
  }
  if (options.what != "publisher-key" && !options.accept.empty()) {
    return fail(ErrorCode::usage, "--accept belongs to publisher-key");
  }
  if (options.what == "fleet-secret") return fleet_secret(options, console);
  return options.what == "node-key" ? node_key(console) : publisher_key(options, console);
}

Run add_rotate(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  verb.add_option("what", options->what, "fleet-secret (trainer), node-key, publisher-key")
      ->required()->check(CLI::IsMember({"fleet-secret", "node-key", "publisher-key"}));
  verb.add_option("--without", options->without, "fleet-secret: node keys that are not to have it, and are shut out")->type_name("KEY");
  verb.add_flag("--finish", options->finish, "fleet-secret: from now on the old one opens no link");
  verb.add_option("--accept", options->accept, "publisher-key: on a node, the new public line")->type_name("LINE");
  verb.add_option("--channel,-c", options->channel, "publisher-key: on a node the channel, when there are several; on the trainer a "
                                                     "channel that has a key of its own");
  return [options](Console& console) { return rotate(*options, console); };
}

const VerbRegistration kRotate({"rotate", VerbGroup::operate, "Replace a secret or key while the fleet goes on.",
                                "p2pw rotate fleet-secret --without NODE_KEY && p2pw rotate fleet-secret --finish", add_rotate});

}  // namespace
}  // namespace p2pw
