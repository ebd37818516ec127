// Changes to a configuration file that somebody may have written by hand: comments, order and spelling of
// everything else stay. A change that the file's form does not allow is an error that says what to type into
// it.
#pragma once

#include "daemon/client/config.h"

namespace p2pw {

// A file as it was read: what it says, and its text.
struct ConfigText {
  Config config;
  std::string text;
};
// Errors: as load_config().
Result<ConfigText> load_config_text(const std::filesystem::path& file);

// One more channel, at the end. Errors: usage (it is there already), config.
Status append_channel(ConfigText& config, const ChannelConfig& channel);
// Another publisher key for a channel. Errors: not_found, config.
Status set_publisher(ConfigText& config, const Channel& channel, const VerifyingKey& key);

// Whether this user can replace the file at all. Error: usage, with what to do instead.
Status can_replace(const std::filesystem::path& file);
// In one step, with the mode and owner that the file has; where it is a link, what that points to. Refused
// when the file is no longer `before`. Errors: io, no_space, busy; then the file is as it was.
Status replace_config(const std::filesystem::path& file, const std::string& before, const std::string& after);

}  // namespace p2pw
