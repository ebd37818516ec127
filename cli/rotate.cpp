#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/daemon_access.h"
#include "cli/setup.h"
#include "cli/verb.h"
#include "daemon/client/delegate.h"
#include "daemon/client/files.h"

namespace p2pw {
namespace {

constexpr std::size_t kMaxKeyFile = 4096;

struct Options {
  std::string what, channel, accept;
  std::vector<std::string> without;
  bool finish = false;
};

WallTime now() { return std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now()); }

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
  P2PW_TRY(std::string old, read_secret_file(file, kMaxKeyFile));
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
Status replace_publisher(Config& config, const VerifyingKey& old, const SigningKey& key) {
  for (ChannelConfig& entry : config.channels) {
    if (entry.publisher != old) continue;
    P2PW_CHECK(renew_delegate(config.paths(), entry.name, key, now()));
    entry.publisher = key.verifying_key();
  }
  return {};
}

Result<std::string> make_publisher(Config& config, Console& console) {
  if (config.node.role != Role::trainer) {
    return fail(ErrorCode::usage, "publisher keys are made on the trainer; here: p2pw rotate publisher-key --accept LINE");
  }
  const auto file = publisher_key_path(config.file);
  P2PW_TRY(std::string text, read_secret_file(file, kMaxKeyFile));
  P2PW_TRY(SigningKey old, SigningKey::parse(text));
  P2PW_TRY(SigningKey key, replace_key(file));
  P2PW_CHECK(setup::give_to_caller(file));
  P2PW_CHECK(replace_publisher(config, old.verifying_key(), key));
  console.note("On every node:  p2pw rotate publisher-key --accept " + key.verifying_key().line());
  return key.verifying_key().line();
}

Status publisher_key(const Options& options, Console& console) {
  P2PW_TRY(Config config, daemon_config(console));
  std::string line = options.accept;
  if (options.accept.empty()) {
    P2PW_TRY(line, make_publisher(config, console));
  } else {
    P2PW_TRY(VerifyingKey key, VerifyingKey::parse(options.accept));
    P2PW_TRY(Channel channel, chosen_channel(console, options.channel));
    if (config.channel(channel) == nullptr) {
      return fail(ErrorCode::not_found, "no channel " + channel.str() + " in " + config.file.string());
    }
    for (ChannelConfig& entry : config.channels) {
      if (entry.name == channel) entry.publisher = key;
    }
  }
  P2PW_CHECK(save_config(config, config.file, true));
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
  verb.add_option("--channel,-c", options->channel, "publisher-key: the channel, when there are several");
  return [options](Console& console) { return rotate(*options, console); };
}

const VerbRegistration kRotate({"rotate", VerbGroup::operate, "Replace a secret or key while the fleet goes on.",
                                "p2pw rotate fleet-secret --without NODE_KEY && p2pw rotate fleet-secret --finish", add_rotate});

}  // namespace
}  // namespace p2pw
