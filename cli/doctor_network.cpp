#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "cli/console.h"
#include "cli/doctor_checks.h"
#include "cli/doctor_sockets.h"
#include "protocol/limits.h"

namespace p2pw::doctor {
namespace {

constexpr double kSkewWarningMs = 1000;

// Why the address cannot be bound; empty when it can.
std::string bind_problem(const std::string& address, std::uint16_t port) {
  std::string why;
  Addresses found = resolve(address, std::to_string(port), AI_NUMERICHOST | AI_PASSIVE, why);
  if (!found) return why;
  Descriptor socket{::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  int yes = 1;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  return ::bind(socket.get(), found->ai_addr, found->ai_addrlen) == 0 ? "" : std::strerror(errno);
}

// Why nobody answers there; empty when somebody does.
std::string connect_problem(const std::string& from, const BootstrapConfig& to, const std::function<bool()>& stop) {
  std::string why;
  connect_to(to.address, to.port, from, stop, why);
  return why;
}

constexpr std::size_t kPeersTried = 8;

std::string display_name(const std::string& name, const std::string& key) { return name.empty() ? key.substr(0, 8) : name; }

}  // namespace

void check_ports(const Config& config, bool daemon_runs, Findings& findings) {
  if (daemon_runs) return;
  struct Port {
    const char* what;
    std::uint16_t number;
  };
  for (Port port : {Port{"link port", config.listen.port}, Port{"swarm port", config.listen.swarm_port}}) {
    std::string where = config.listen.address + ":" + std::to_string(port.number);
    std::string why = bind_problem(config.listen.address, port.number);
    if (why.empty()) {
      findings.push_back({port.what, Verdict::good, where + " is free", ""});
    } else {
      findings.push_back({port.what, Verdict::bad, where + ": " + why,
                          "[listen] address must be an address of this machine, and the port free"});
    }
  }
}

void check_bootstrap(const Config& config, const std::function<bool()>& stop, Findings& findings) {
  for (const BootstrapConfig& entry : config.bootstrap) {
    std::string where = entry.address + ":" + std::to_string(entry.port);
    std::string from = config.listen.wildcard() ? "" : config.listen.address;
    std::string why = connect_problem(from, entry, stop);
    if (why.empty()) {
      findings.push_back({"bootstrap " + where, Verdict::good, "accepts connections", ""});
    } else {
      findings.push_back({"bootstrap " + where, Verdict::bad, why,
                          "is p2pwd running there, and does the firewall let TCP port " + std::to_string(entry.port) + " through?"});
    }
  }
}

void check_reachable(const Config& config, const std::function<bool()>& stop, Findings& findings) {
  struct Port {
    const char* what;
    std::uint16_t number;
  };
  std::vector<Port> ports = {{"link port", config.listen.port}};
  if (config.node.role == Role::node) ports.push_back({"swarm port", config.listen.swarm_port});
  for (const Port& port : ports) {
    if (port.number == 0) continue;  // drawn at its start
    BootstrapConfig self;
    self.address = config.listen.reachable_at();
    self.port = port.number;
    if (self.address == "0.0.0.0" || self.address == "::") self.address = "localhost";
    std::string where = self.address + ":" + std::to_string(port.number);
    std::string why = connect_problem("", self, stop);
    if (why.empty()) {
      findings.push_back({port.what, Verdict::good, where + " answers (from here; p2pw doctor on another node tries it from there)", ""});
    } else {
      findings.push_back({port.what, Verdict::bad, where + ": " + why,
                          "other daemons are told this address: set [listen] advertise right, and let TCP port " +
                              std::to_string(port.number) + " in"});
    }
  }
}

void check_peers(const Config& config, const api::PeersReply& peers, const std::function<bool()>& stop, Findings& findings) {
  std::string from = config.listen.wildcard() ? "" : config.listen.address;
  std::size_t tried = 0, reached = 0;
  for (const api::PeerStatus& peer : peers.peers) {
    std::size_t colon = peer.address.rfind(':');
    if (peer.life == "gone" || colon == std::string::npos || tried == kPeersTried) continue;
    BootstrapConfig to;
    to.address = peer.address.substr(0, colon);
    if (to.address.starts_with('[') && to.address.ends_with(']')) to.address = to.address.substr(1, to.address.size() - 2);
    to.port = static_cast<std::uint16_t>(std::strtoul(peer.address.c_str() + colon + 1, nullptr, 10));
    ++tried;
    std::string why = connect_problem(from, to, stop);
    reached += why.empty();
    if (why.empty()) continue;
    findings.push_back({"way to " + display_name(peer.name, peer.node), peer.linked ? Verdict::warning : Verdict::bad, peer.address + ": " + why,
                        "let TCP port " + std::to_string(to.port) + " through between the two, or set [listen] advertise there"});
  }
  if (tried > 0 && reached == tried) {
    findings.push_back({"ways to others", Verdict::good, "all " + std::to_string(tried) + " members tried can be reached", ""});
  }
}

void check_channels(const api::StatusReply& status, Findings& findings) {
  for (const api::ChannelStatus& channel : status.channels) {
    std::string what = "channel " + channel.channel;
    if (!channel.problem.empty()) {
      findings.push_back({what, Verdict::bad, channel.problem, "p2pw log --channel " + channel.channel + " tells since when"});
    } else if (channel.engine == "unknown") {
      findings.push_back({what, Verdict::warning, "nobody knows what its engine serves", "p2pw log --channel " + channel.channel +
                                                  " tells what it answered; see the check of the hook"});
    } else if (channel.head == "frozen") {
      findings.push_back({what, Verdict::warning, "the trainer has not signed a head for a minute (frozen)",
                          "is the trainer's daemon up and linked? p2pw peers"});
    } else {
      findings.push_back({what, Verdict::good, "version " + std::to_string(channel.version_active) + " active, head " + channel.head, ""});
    }
  }
}

void check_mirror(const api::StatusReply& status, Findings& findings) {
  const api::MirrorStatus& mirror = status.mirror;
  if (mirror.url.empty()) return;
  if (!mirror.problem.empty()) {
    findings.push_back({"mirror", Verdict::bad, mirror.problem,
                        "daemon/docs/OPERATING.md, Shared storage: address, rights and credentials; under systemd a folder needs "
                        "ReadWritePaths="});
  } else if (mirror.last_success_ms == 0) {
    findings.push_back({"mirror", Verdict::warning, mirror.url + " has not answered yet", "ask again in a minute"});
  } else if (mirror.refused > 0) {
    findings.push_back({"mirror", Verdict::bad, std::to_string(mirror.refused) + " objects in " + mirror.url + " are not what the publisher signed",
                        "p2pw log names them; delete them there, and a node that writes puts them back after its restart"});
  } else {
    findings.push_back({"mirror", Verdict::good, mirror.url + " answers, " + (mirror.writes ? "can be written to" : "is only read"), ""});
  }
}

void check_swarm(const api::StatusReply& status, Findings& findings) {
  if (status.swarm.empty()) return;
  std::string ended = status.swarm_ended == 0 ? "" : "; " + std::to_string(status.swarm_ended) + " such processes ended unasked";
  if (!status.swarm_confined) {
    findings.push_back({"swarm", Verdict::warning, status.swarm + ended,
                        "a kernel with Landlock (5.13 or newer, lsm=landlock,...) and seccomp keeps a neighbour that takes the "
                        "swarm over away from this node's files"});
  } else if (status.swarm_ended > 0) {
    findings.push_back({"swarm", Verdict::warning, status.swarm + ended, "p2pw log tells why (swarm-ended)"});
  } else {
    findings.push_back({"swarm", Verdict::good, status.swarm, ""});
  }
}

void check_clocks(const api::StatusReply& status, Findings& findings) {
  double limit = std::chrono::duration<double, std::milli>(limits::kMaxClockCorrection).count();
  double worst = 0;
  for (const api::LinkStatus& link : status.links) {
    double skew = std::abs(link.clock_offset_ms);
    worst = std::max(worst, skew);
    if (skew < kSkewWarningMs) continue;
    findings.push_back({"clock against " + display_name(link.name, link.node), skew < limit ? Verdict::warning : Verdict::bad,
                        "differs by " + human_seconds(skew / 1000), "run an NTP client (systemd-timesyncd, chrony) on both"});
  }
  if (!status.links.empty() && worst < kSkewWarningMs) {
    findings.push_back({"clocks", Verdict::good, "within " + human_seconds(worst / 1000) + " of all linked daemons", ""});
  }
}

void check_buffers(const api::StatusReply& status, std::uint64_t read_max, std::uint64_t write_max, Findings& findings) {
  std::uint64_t largest = 0;
  std::string who;
  for (const api::LinkStatus& link : status.links) {
    double stripes = std::max(1u, link.stripes);
    auto needed = static_cast<std::uint64_t>(static_cast<double>(link.rate_bits) / 8 * link.round_trip_ms / 1000 / stripes * 2);
    if (needed > largest) {
      largest = needed;
      who = display_name(link.name, link.node);
    }
  }
  std::uint64_t allowed = std::min(read_max, write_max);
  if (largest == 0) return;  // no link has carried enough to tell
  if (largest <= allowed) {
    return findings.push_back({"socket buffers", Verdict::good, "enough for every link: " + human_bytes(largest) +
                                                                    " a connection at most, towards " + who, ""});
  }
  findings.push_back({"socket buffers", Verdict::warning,
                      "the link to " + who + " needs " + human_bytes(largest) + " a connection; the kernel allows " +
                          human_bytes(allowed),
                      "sysctl -w net.ipv4.tcp_rmem='4096 131072 67108864' net.ipv4.tcp_wmem='4096 16384 67108864' (and in /etc/sysctl.d)"});
}

}  // namespace p2pw::doctor
