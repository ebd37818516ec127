// What `init`, `join` and `channel add` share: keys, addresses and owners of a machine that is being set up.
#pragma once

#include <filesystem>
#include <string>

#include "cli/console.h"
#include "daemon/client/config.h"
#include "protocol/signing.h"

namespace p2pw::setup {

// The key file, made when it is missing (0600). Errors: as read_secret_key(), write_small_file().
Result<SigningKey> load_or_make_key(const std::filesystem::path& file);

// The address of this machine from which packets towards `peer` would leave: asks the kernel, sends nothing. Empty when
// it has no route there.
std::string local_address_towards(const std::string& peer);

// How the two verbs say where the daemon listens.
struct ListenOptions {
  std::string address;  // where others reach it; empty = found out
  std::string listen;   // what it binds; empty = `address`
  std::uint16_t port = kDefaultLinkPort;
  std::uint16_t swarm_port = kDefaultSwarmPort;
};
// `peer`: any address of the network to be reached, for finding out. Error: usage.
Result<ListenConfig> listen_config(const ListenOptions& options, const std::string& peer);

// The secret key in `file`. What there is to do when this user cannot have it names the `option` that gives another one, if
// any; `missing` is said when there is no such file, or else that there is none. Errors: not_found, untrusted, io, malformed.
Result<SigningKey> read_secret_key(const std::filesystem::path& file, const std::string& option = "",
                                   const std::string& missing = "");

// A token as it was given, or for - what standard input says.
Result<std::string> token_text(const std::string& given);

// The configuration's file and the state folder that --config, --state and their defaults mean, absolute.
void place(Config& config, const Console& console);
// Lets the daemon serve its dashboard, API and metrics on loopback too, with a token of its own.
void add_dashboard(Config& config);
// Whether the configuration can be written there at all. Error: usage, with what to type instead.
Status check_place(const Config& config);
// As the daemon will check them, before anything is written. A publisher that is not known yet is no error. Error: usage.
Status check_values(Config config);
std::string name_for_people(const std::string& given);  // or the host name

std::string how_to_start(const Config& config);  // a note
// The verb's answer, then the daemon's start when it is wanted. A daemon that does not start fails the verb, but the
// answer, which is good all the same, is given.
Status answer_and_start(Console& console, const nlohmann::ordered_json& object, const std::string& text, bool start);
// The same for a machine that runs already.
Status answer_and_restart(Console& console, const nlohmann::ordered_json& object, const std::string& text, bool restart);

// Root sets up for others: where there is a user p2pw, the state folder becomes its own and the configuration readable for
// it; the publisher key goes to who called sudo.
Status give_to_daemon(const Config& config);
Status give_to_caller(const std::filesystem::path& file);

}  // namespace p2pw::setup
