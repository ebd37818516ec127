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
  std::error_code error;
  const auto real = std::filesystem::canonical(file, error);
  struct stat info {};
  if (error || ::stat(real.c_str(), &info) != 0)
    return fail(ErrorCode::not_found, "cannot read " + file.string() + ": " + std::strerror(ENOENT));
  const bool own = ::geteuid() == 0 || ::geteuid() == info.st_uid;
  if (own && ::access(real.parent_path().c_str(), W_OK) == 0) return {};
  return fail(ErrorCode::usage, "this user may not change " + real.string() + ": type it again with sudo");
}

Status replace_config(const std::filesystem::path& file, const std::string& before,
                      const std::string& after) {
  P2PW_CHECK(can_replace(file));
  std::error_code error;
  const auto real = std::filesystem::canonical(file, error);
  struct stat info {};
  if (error || ::stat(real.c_str(), &info) != 0) return fail(ErrorCode::io, "cannot read " + file.string());
  P2PW_TRY(std::string now, read_small_file(real, limits::kMaxConfigBytes));
  if (now != before)
    return fail(ErrorCode::busy, file.string() + " was changed by somebody else meanwhile: type it again");
  const mode_t mode = info.st_mode & 07777;
  P2PW_CHECK(write_small_file(real, after, mode));
  struct stat written {};
  const bool same =
      ::stat(real.c_str(), &written) == 0 && written.st_uid == info.st_uid && written.st_gid == info.st_gid;
  if (same || ::lchown(real.c_str(), info.st_uid, info.st_gid) == 0) return {};
  const std::string reason = std::strerror(errno);
  P2PW_CHECK(write_small_file(real, before, mode));
  return fail(ErrorCode::io, "cannot keep the owner of " + real.string() + ": " + reason);
}

}  // namespace p2pw
