// `p2pw channel add`.
#pragma once

#include <string>

#include "cli/console.h"

namespace p2pw {

struct ChannelAdd {
  std::string channel;    // a name, a token, or - for a token on standard input
  std::string publisher;  // node: its public line
  std::string key_file;   // trainer: the key to sign with
  std::string root;
  unsigned slots = 2;
  bool new_key = false;  // trainer: one for this channel alone
  bool restart = false;
};

// The configuration file is changed last, in one step: after an error there is nothing of the channel.
// Errors: usage, not_found (no configuration, no key), config, untrusted (key file readable by others), io,
// no_space.
Status add_channel(const ChannelAdd& add, Console& console);

}  // namespace p2pw
