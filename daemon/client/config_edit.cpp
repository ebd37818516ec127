#include "daemon/client/config_edit.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "daemon/client/files.h"
#include "protocol/limits.h"

namespace p2pw {
namespace {

// What the text says must be exactly what was meant.
Status adopt(ConfigText& config, std::string text, const Config& meant, const std::string& by_hand) {
  const std::string file = config.config.file.string();
  auto parsed = parse_config(text, file);
  if (!parsed || to_toml(*parsed) != to_toml(meant)) {
    return fail(ErrorCode::config, file + " is written in a way that cannot be changed from here" +
                                       (parsed ? "" : " (" + parsed.error().message + ")") +
                                       "; put this into it by hand:\n" + by_hand);
  }
  config = {std::move(*parsed), std::move(text)};
  return {};
}

// The file behind all links.
struct Target {
  std::filesystem::path path;
  struct stat info {};
};

Result<Target> target_of(const std::filesystem::path& file) {
  Target target;
  std::error_code error;
  target.path = std::filesystem::canonical(file, error);
  if (!error && ::stat(target.path.c_str(), &target.info) == 0) return target;
  return fail(ErrorCode::not_found, "cannot read " + file.string() + ": " + (error ? error.message() : std::strerror(errno)));
}

}  // namespace

Result<ConfigText> load_config_text(const std::filesystem::path& file) {
  P2PW_TRY(std::string text, read_small_file(file, limits::kMaxConfigBytes));
  P2PW_TRY(Config config, parse_config(text, file.string()));
  return ConfigText{std::move(config), std::move(text)};
}

Status append_channel(ConfigText& config, const ChannelConfig& channel) {
  Config meant = config.config;
  if (meant.channel(channel.name) != nullptr) {
    return fail(ErrorCode::usage, "channel " + channel.name.str() + " is in " + meant.file.string() +
                                      " already: `p2pw channel list` shows what is known of it");
  }
  const auto at = std::find_if(meant.channels.begin(), meant.channels.end(),
                               [&](auto& c) { return channel.name < c.name; });
  meant.channels.insert(at, channel);
  const std::string section = channel_toml(meant, channel.name);
  std::string text = config.text;
  if (!text.empty() && text.back() != '\n') text += '\n';
  return adopt(config, text + "\n" + section, meant, section);
}

Status set_publisher(ConfigText& config, const Channel& channel, const VerifyingKey& key) {
  Config meant = config.config;
  auto entry =
      std::find_if(meant.channels.begin(), meant.channels.end(), [&](auto& c) { return c.name == channel; });
  if (entry == meant.channels.end()) {
    return fail(ErrorCode::not_found, "no channel " + channel.str() + " in " + meant.file.string());
  }
  const std::string old = entry->publisher.line(), by_hand = "publisher = \"" + key.line() + "\"\n";
  if (entry->publisher == key) return {};
  entry->publisher = key;
  // Several channels may have the same key: the right place is the one after which the file says what was
  // meant.
  Status done = fail(ErrorCode::config, "");
  for (std::size_t at = 0; !done && (at = config.text.find(old, at)) != std::string::npos; ++at) {
    std::string text = config.text;
    done = adopt(config, text.replace(at, old.size(), key.line()), meant, by_hand);
  }
  return done ? done : adopt(config, config.text, meant, by_hand);
}

Status can_replace(const std::filesystem::path& file) {
  P2PW_TRY(Target target, target_of(file));
  const bool own = ::geteuid() == 0 || ::geteuid() == target.info.st_uid;
  if (own && ::access(target.path.parent_path().c_str(), W_OK) == 0) return {};
  return fail(ErrorCode::usage, "this user may not change " + target.path.string() + ": type it again with sudo");
}

Status replace_config(const std::filesystem::path& file, const std::string& before,
                      const std::string& after) {
  P2PW_CHECK(can_replace(file));
  P2PW_TRY(Target target, target_of(file));
  P2PW_TRY(std::string now, read_small_file(target.path, limits::kMaxConfigBytes));
  if (now != before)
    return fail(ErrorCode::busy, file.string() + " was changed by somebody else meanwhile: type it again");
  const mode_t mode = target.info.st_mode & 07777;
  P2PW_CHECK(write_small_file(target.path, after, mode));
  auto written = target_of(target.path);
  const bool same = written.ok() && written->info.st_uid == target.info.st_uid && written->info.st_gid == target.info.st_gid;
  if (same || ::lchown(target.path.c_str(), target.info.st_uid, target.info.st_gid) == 0) return {};
  const std::string reason = std::strerror(errno);
  P2PW_CHECK(write_small_file(target.path, before, mode));
  return fail(ErrorCode::io, "cannot keep the owner of " + target.path.string() + ": " + reason);
}

}  // namespace p2pw
