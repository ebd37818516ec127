#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/daemon_access.h"
#include "cli/table.h"
#include "cli/verb.h"

namespace p2pw {
namespace {

std::string role_of(const api::PeerStatus& peer) {
  if (peer.trainer) return "trainer";
  return peer.bootstrap ? "bootstrap" : "node";
}

std::string channels_of(const api::PeerStatus& peer) {
  std::string text;
  for (const api::PeerChannel& followed : peer.channels) text += (text.empty() ? "" : " ") + followed.channel;
  return text.empty() ? "-" : text;
}

Status peers(Console& console) {
  P2PW_TRY(ApiClient daemon, connect_daemon(console));
  P2PW_TRY(api::PeersReply reply, daemon.peers());
  Table table({"region", "node", "role", "channels", "life", "linked", "address", ">round trip", ">rate", "doing"});
  for (const api::PeerStatus& p : reply.peers) {
    char round_trip[32];
    std::snprintf(round_trip, sizeof round_trip, "%.1f ms", p.round_trip_ms);
    table.row({p.region, p.name.empty() ? p.node.substr(0, 8) : p.name, role_of(p), channels_of(p), p.life, p.linked ? "yes" : "no",
               p.address, p.round_trip_ms > 0 ? round_trip : "-", human_bits(p.rate_bits), p.doing});
  }
  console.answer(api::to_json(reply), table.empty() ? "this daemon knows of no other" : table.text());
  return {};
}

Run add_peers(CLI::App&) { return peers; }

const VerbRegistration kPeers({"peers", VerbGroup::fleet, "The fleet's members, and why there is traffic with them or none.",
                               "p2pw peers", add_peers});

}  // namespace
}  // namespace p2pw
