// What a node is told once, in a TOML file: who it is, where it listens, whom it asks for the fleet, which channels it
// follows. Read and checked as a whole before anything starts; every error names file, line, key and reason, and a key
// that nobody reads is an error, so that a typing mistake never means "default".
//
// A Config is a value: read-only after load, shared freely between threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "daemon/client/hook_config.h"
#include "daemon/client/mirror_url.h"
#include "daemon/client/paths.h"
#include "protocol/ids.h"
#include "protocol/signing.h"

namespace p2pw {

inline constexpr std::uint16_t kDefaultLinkPort = 4710;
inline constexpr std::uint16_t kDefaultSwarmPort = 4711;

enum class Role { node, trainer };
std::string_view name_of(Role role);  // "node", "trainer"

// [node]
struct NodeConfig {
  std::string name;        // for people, in status and logs; defaults to the host name
  Region region;           // required
  Role role = Role::node;  // "trainer" publishes and serves gateways; "node" follows channels and joins its region's swarm
  bool bootstrap = false;  // keeps the table of live members for its region; every region needs one
};

// [listen]. Outgoing links and the swarm are bound to `address` too, unless it is a wildcard.
struct ListenConfig {
  std::string address = "0.0.0.0";  // IP literal
  std::uint16_t port = kDefaultLinkPort;         // links; 0 = any free one
  std::uint16_t swarm_port = kDefaultSwarmPort;  // the region's swarm; 0 = any free one
  std::string advertise;            // what other daemons dial; defaults to `address`; required when that is a wildcard
                                    // and the node is trainer or bootstrap
  bool wildcard() const { return address == "0.0.0.0" || address == "::"; }
  const std::string& reachable_at() const { return advertise.empty() ? address : advertise; }
};

// [[bootstrap]]: a daemon to ask for the fleet's members.
struct BootstrapConfig {
  std::string address;  // IP literal or host name
  std::uint16_t port = kDefaultLinkPort;
  std::optional<NodeKey> key;  // refuse any other key there
  Region region;               // whose bootstrap daemon it is; empty = not known
  bool trainer = false;        // the trainer: used to find the region's own, or while those are down
};

// When a staged version becomes active by itself.
struct ActivationPolicy {
  enum class When { at_once, asked, share };
  When when = When::at_once;
  unsigned percent = 0;  // share: of the nodes that have it staged
  bool fleet = false;    // of all regions; else of the node's own
  std::chrono::seconds interval{0};  // after the activation before, at least
  bool operator==(const ActivationPolicy&) const = default;
};
// "auto", "asked", "region 80%", "fleet 95%"; `interval` is not part of it.
std::string text_of(const ActivationPolicy& policy);

// [channels.NAME]
struct ChannelConfig {
  Channel name;
  VerifyingKey publisher;           // required: the only key whose versions are accepted
  unsigned slots = 2;               // 1: `current` is absent while patching
  std::chrono::seconds grace{30};   // how long the old slot stays untouched after a switch, when an engine has a hook
  std::filesystem::path root;       // where the slots lie; defaults to channels/NAME in the state folder
  ActivationPolicy activate;        // the very first version is always activated at once, so that an engine can start
  HookConfig hook;                  // [channels.NAME.hook]; a trainer has none
};

// [links]
struct LinksConfig {
  unsigned stripes = 4;              // TLS connections for chunks per link across regions
  std::string congestion = "auto";   // "auto", or a name of the kernel's ("bbr", "cubic")
  std::uint64_t wan_rate_limit_mbit = 0;  // towards other regions, all links together; 0 = no limit
};

// [tree]: the shape of relay trees (protocol/placement.h). The trainer's values count.
struct TreeConfig {
  std::size_t root_children = 1;
  std::size_t fan_out = 1;
};

// [placement]
struct PlacementConfig {
  std::size_t candidates = 4;  // gateway candidates of each region and channel
};

// [[allow]]: with at least one entry, only these keys are linked to, and their region and roles are these, whatever they
// say themselves.
struct AllowConfig {
  NodeKey key;
  Region region;  // empty = as the node says
  bool trainer = false;
  bool bootstrap = false;
};

// [api]
struct ApiConfig {
  std::filesystem::path socket;          // defaults to api.sock in the state folder
  std::filesystem::path publish_socket;  // defaults to publish.sock in the state folder
  std::string http_address;              // "127.0.0.1" from http = "127.0.0.1:4712"; empty = no TCP
  std::uint16_t http_port = 0;
  std::string token;                     // required with http: clients send "Authorization: Bearer TOKEN"
};

// [log]
struct LogConfig {
  std::string level = "info";  // trace, debug, info, warn, error
  bool json = false;           // one JSON object a line
};

struct Config {
  std::filesystem::path file;  // where it was read from; empty when made in memory
  std::filesystem::path state = kDefaultStateFolder;
  unsigned threads = 0;  // workers for hashing, decoding, patching; 0 = one a core
  MirrorUrl mirror;      // shared storage; none = there is none
  bool mirror_write = true;  // keeps it filled, in turn with others; a web server is never written to
  std::filesystem::path mirror_credentials;  // defaults to mirror.credentials in the state folder
  NodeConfig node;
  ListenConfig listen;
  std::vector<BootstrapConfig> bootstrap;
  std::vector<ChannelConfig> channels;
  LinksConfig links;
  TreeConfig tree;
  PlacementConfig placement;
  std::vector<AllowConfig> allow;
  ApiConfig api;
  LogConfig log;

  StatePaths paths() const { return StatePaths(state); }
  const ChannelConfig* channel(const Channel& name) const;
  std::filesystem::path channel_root(const Channel& name) const;  // `root`, or its default
  std::filesystem::path api_socket() const;
  std::filesystem::path publish_socket() const;
  std::filesystem::path mirror_credentials_file() const;
};

// Errors: not_found (no such file), io, config.
Result<Config> load_config(const std::filesystem::path& file);
// `origin` stands for the file's name in errors. Error: config.
Result<Config> parse_config(std::string_view toml, const std::string& origin);

// The effective values as a file that parse_config() reads back to an equal Config.
std::string to_toml(const Config& config);
// The same without the values that are defaults anyway: a file to begin with.
std::string to_short_toml(const Config& config);

// The section of one of its channels, in the short form.
std::string channel_toml(const Config& config, const Channel& channel);

// Writes to_short_toml() beside `file`, syncs and renames; mode 0640; parent folders are made. Refuses an existing file
// unless `replace`. Errors: io, no_space, usage (exists).
Status save_config(const Config& config, const std::filesystem::path& file, bool replace = false);

}  // namespace p2pw
