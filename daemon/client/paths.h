// Where things lie on disk. Names only: nothing here touches the file system, except the functions that say so.
//
//   STATE/                         0750, the daemon's own
//     node.key                     0600, Ed25519 key of this daemon (minisign form)
//     fleet/NNNN.secret            0600, fleet secrets (fleet_secrets.h); the highest number is the current one
//     enrolments                   0600, tokens that were given out and are still open (protocol/enrolment.h)
//     enrolment.pending            0600, the token that `join` was given, until the daemon has enrolled
//     mirror.credentials           0600, access to an S3 store, where the mirror is one
//     channels/C/slots/            the two slots and `current`, unless the channel has a `root`
//     channels/C/records/          the log of signed records
//     channels/C/bundles/          bundle files and metas
//     channels/C/online.key        0600, trainer: signs `head`
//     channels/C/delegate          trainer: the newest `delegate` record
//     api.sock, publish.sock       0660, group p2pw
#pragma once

#include <filesystem>
#include <string>

#include "protocol/ids.h"

namespace p2pw {

inline constexpr const char* kDefaultConfigFile = "/etc/p2pw/p2pw.toml";
inline constexpr const char* kDefaultStateFolder = "/var/lib/p2pw";

class StatePaths {
 public:
  explicit StatePaths(std::filesystem::path root) : root_(std::move(root)) {}

  const std::filesystem::path& root() const { return root_; }
  std::filesystem::path node_key() const { return root_ / "node.key"; }
  std::filesystem::path fleet() const { return root_ / "fleet"; }
  std::filesystem::path enrolments() const { return root_ / "enrolments"; }
  std::filesystem::path enrolment_pending() const { return root_ / "enrolment.pending"; }
  std::filesystem::path mirror_credentials() const { return root_ / "mirror.credentials"; }
  std::filesystem::path channel(const Channel& c) const { return root_ / "channels" / c.str(); }
  std::filesystem::path records(const Channel& c) const { return channel(c) / "records"; }
  std::filesystem::path bundles(const Channel& c) const { return channel(c) / "bundles"; }
  std::filesystem::path online_key(const Channel& c) const { return channel(c) / "online.key"; }
  std::filesystem::path delegate(const Channel& c) const { return channel(c) / "delegate"; }
  std::filesystem::path api_socket() const { return root_ / "api.sock"; }
  std::filesystem::path publish_socket() const { return root_ / "publish.sock"; }

 private:
  std::filesystem::path root_;
};

// The publisher's secret key beside the configuration of the trainer. Read by `init` and `seed`, never by the daemon.
std::filesystem::path publisher_key_path(const std::filesystem::path& config_file);
// Where a channel's own key lies when it has one (`p2pw channel add`): publisher-CHANNEL.key.
std::filesystem::path own_key_path(const std::filesystem::path& config_file, const Channel& channel);
// The channel's own key if it is there, else the one for all.
std::filesystem::path publisher_key_path(const std::filesystem::path& config_file, const Channel& channel);

// The file that the user means: `given`, else $P2PW_CONFIG, else kDefaultConfigFile.
std::filesystem::path config_path(const std::string& given);

}  // namespace p2pw
