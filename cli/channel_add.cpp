#include "cli/channel_add.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/service.h"
#include "cli/setup.h"
#include "daemon/client/clock.h"
#include "daemon/client/config_edit.h"
#include "daemon/client/delegate.h"
#include "daemon/client/files.h"
#include "protocol/limits.h"
#include "protocol/token.h"

namespace p2pw {
namespace {

constexpr std::string_view kTokenBegins = "p2pw1";

// No name is as long as the shortest token.
bool is_token(const std::string& text) {
  return text == "-" || (text.starts_with(kTokenBegins) && text.size() > limits::kMaxNameLength);
}

// Removes what was made for the channel, unless it was there before or the whole has succeeded.
class Leftovers {
 public:
  void made(const std::filesystem::path& path) {
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) paths_.push_back(path);
  }
  void keep() { paths_.clear(); }
  ~Leftovers() {
    std::error_code ignored;
    for (const auto& path : paths_) std::filesystem::remove_all(path, ignored);
  }

 private:
  std::vector<std::filesystem::path> paths_;
};

struct TrainerKey {
  SigningKey key;
  std::filesystem::path file;  // where `seed` will look for it
  bool own = false;            // to be written there
};

Result<TrainerKey> trainer_key(const ChannelAdd& add, const Config& config, const Channel& channel) {
  const auto common = publisher_key_path(config.file), own = own_key_path(config.file, channel);
  std::error_code ignored;
  if (std::filesystem::exists(own, ignored)) {
    if (add.new_key || !add.key_file.empty()) {
      return fail(ErrorCode::usage, own.string() +
                                        " is there already, and a key is never overwritten: leave " +
                                        (add.new_key ? "--new-key" : "--publisher-key") + " away to use it");
    }
    P2PW_TRY(SigningKey key, setup::read_secret_key(own, "--publisher-key"));
    return TrainerKey{std::move(key), own, false};
  }
  if (add.new_key) return TrainerKey{SigningKey::generate(), own, true};
  const auto file = add.key_file.empty() ? common : std::filesystem::path(add.key_file);
  P2PW_TRY(SigningKey key,
           setup::read_secret_key(file, "--publisher-key",
                                  "there is no publisher key at " + file.string() + ": " +
                                      (add.key_file.empty() ? "give it with --publisher-key FILE, or let "
                                                              "--new-key make one for this channel"
                                                            : "check the path")));
  // `seed` looks beside the configuration.
  auto known = setup::read_secret_key(common, "--publisher-key");
  const bool same = known.ok() && known->verifying_key() == key.verifying_key();
  return TrainerKey{std::move(key), same ? common : own, !same};
}

Result<VerifyingKey> publisher_for_node(const ChannelAdd& add, const Channel& channel) {
  if (add.publisher.empty()) {
    return fail(
        ErrorCode::usage,
        "whose versions of channel " + channel.str() + " are to be believed? Give the public line that " +
            "`p2pw channel list` shows on the trainer with --publisher LINE; or, instead of the name, " +
            "what `p2pw token --channel " + channel.str() + "` prints there");
  }
  auto key = VerifyingKey::parse(add.publisher);
  if (!key) return fail(ErrorCode::usage, "--publisher: " + key.error().message);
  return *key;
}

Status only_for(bool trainer, const ChannelAdd& add) {
  if (!trainer && (add.new_key || !add.key_file.empty())) {
    return fail(
        ErrorCode::usage,
        "channels are published on the trainer; on a node give its public line with --publisher LINE");
  }
  if (trainer && !add.publisher.empty()) {
    return fail(ErrorCode::usage,
                "--publisher is for nodes; on the trainer give the key itself with --publisher-key FILE");
  }
  if (trainer && add.slots != 2) {
    return fail(
        ErrorCode::usage,
        "a trainer needs two slots, since a version is made from one while the next is built in the other");
  }
  if (trainer && is_token(add.channel)) {
    return fail(ErrorCode::usage,
                "a token is for nodes; on the trainer give the channel's name: p2pw channel add NAME");
  }
  return {};
}

Result<ChannelConfig> from_token(const std::string& text, const Config& config, Console& console) {
  P2PW_TRY(JoinToken token, JoinToken::parse(text));
  auto known = [&](const JoinToken::Bootstrap& named) {
    return std::any_of(config.bootstrap.begin(), config.bootstrap.end(),
                       [&](auto& b) { return b.key == named.node; });
  };
  if (std::none_of(token.bootstraps.begin(), token.bootstraps.end(), known)) {
    console.note("The token is from node " + token.bootstraps.front().node.hex() +
                 ", which no [[bootstrap]] in " + config.file.string() +
                 " names: make sure that it is of this fleet.");
  }
  ChannelConfig channel;
  channel.name = token.channel;
  channel.publisher = token.publisher;
  return channel;
}

// What is known of the channel before any key is read.
Result<ChannelConfig> channel_asked(const ChannelAdd& add, const Config& config, Console& console) {
  ChannelConfig channel;
  if (add.channel.empty())
    return fail(ErrorCode::usage,
                "which channel? p2pw channel add NAME; `p2pw channel list` shows those that are there");
  P2PW_CHECK(only_for(config.node.role == Role::trainer, add));
  if (is_token(add.channel)) {
    if (!add.publisher.empty())
      return fail(ErrorCode::usage, "the token names the publisher: leave --publisher away");
    P2PW_TRY(std::string text, setup::token_text(add.channel));
    P2PW_TRY(channel, from_token(text, config, console));
  } else {
    auto name = Channel::parse(add.channel);
    if (!name) return fail(ErrorCode::usage, name.error().message);
    channel.name = *name;
  }
  channel.slots = add.slots;
  if (!add.root.empty()) channel.root = std::filesystem::absolute(add.root);
  return channel;
}

void tell(const ChannelAdd& add, const Config& config, const ChannelConfig& channel, Console& console) {
  const std::string name = channel.name.str();
  const bool trainer = config.node.role == Role::trainer;
  console.note("Added channel " + name + " to " + config.file.string() + ".");
  if (!add.restart) {
    const bool usual = config.file == kDefaultConfigFile;
    console.note("p2pwd takes it up when it is restarted:  " +
                 std::string(usual ? "systemctl restart p2pwd"
                                   : "stop it, then p2pwd --config " + config.file.string()));
  }
  if (!trainer) return;
  console.note("On each node that is to follow it:  p2pw channel add " + name + " --publisher " +
               channel.publisher.line());
  console.note("Then publish:  p2pw seed DIR --channel " + name);
}

nlohmann::ordered_json json_of(const Config& config, const ChannelConfig& channel,
                               const std::filesystem::path& key_file) {
  nlohmann::ordered_json object = {{"channel", channel.name.str()},
                                   {"publisher", channel.publisher.line()},
                                   {"config", config.file.string()},
                                   {"current", (config.channel_root(channel.name) / "current").string()}};
  if (!key_file.empty()) object["publisher_key"] = key_file.string();
  return object;
}

// On the trainer: the key and the delegate, before the configuration names the channel.
Status make_keys(const TrainerKey& key, const Config& config, const Channel& channel, Leftovers& leftovers) {
  if (key.own) {
    leftovers.made(key.file);
    P2PW_CHECK(write_small_file(key.file, key.key.file(), 0600));
    P2PW_CHECK(setup::give_to_caller(key.file));
  }
  const StatePaths paths = config.paths();
  for (const auto& path : {paths.channel(channel), paths.online_key(channel)}) leftovers.made(path);
  return renew_delegate(paths, channel, key.key, wall_clock());
}

}  // namespace

Status add_channel(const ChannelAdd& add, Console& console) {
  P2PW_TRY(Config config, console.config());
  if (config.file.empty()) return fail(ErrorCode::usage, "name the configuration with --config FILE");
  config.file = std::filesystem::absolute(config.file);
  P2PW_TRY(ChannelConfig channel, channel_asked(add, config, console));
  P2PW_TRY(ConfigText file, load_config_text(config.file));
  if (file.config.channel(channel.name) != nullptr) return append_channel(file, channel);  // says so
  if (add.restart) P2PW_CHECK(service::can_start(config, "--restart"));
  P2PW_CHECK(can_replace(config.file));

  std::optional<TrainerKey> key;
  if (config.node.role == Role::trainer) {
    P2PW_TRY(TrainerKey found, trainer_key(add, config, channel.name));
    channel.publisher = found.key.verifying_key();
    key.emplace(std::move(found));
  } else if (channel.publisher == VerifyingKey{}) {
    P2PW_TRY(channel.publisher, publisher_for_node(add, channel.name));
  }
  const std::string before = file.text;
  P2PW_CHECK(append_channel(file, channel));
  Leftovers leftovers;
  if (key) P2PW_CHECK(make_keys(*key, config, channel.name, leftovers));
  P2PW_CHECK(replace_config(config.file, before, file.text));
  leftovers.keep();
  config.channels.push_back(channel);
  P2PW_CHECK(setup::give_to_daemon(config));
  tell(add, config, channel, console);
  const auto object = json_of(config, channel, key ? key->file : std::filesystem::path());
  const std::string text = key ? channel.publisher.line() : object["current"].get<std::string>();
  return setup::answer_and_restart(console, object, text, add.restart);
}

}  // namespace p2pw
