// What control costs each kind of daemon as the fleet grows: links from the daemon's own link plan, real messages weighed,
// counted by the daemon's rules of who tells whom.
#pragma once

#include <cstdint>
#include <string>

namespace p2pw::fleet {

struct ControlSetting {
  std::size_t nodes = 500;
  std::size_t per_region = 250;    // two regions at least
  std::size_t most_regions = 32;   // about as many as a cloud has; larger fleets have larger regions
  double deaths_per_hour = 0.01;   // share of the nodes, each replaced
  double interval = 60;            // between versions
  std::size_t bundles = 12;        // of a version
  // For comparison: every hub tells every daemon it has a link with all it knows, and each report is repeated every 5 s.
  bool tell_all = false;
};

// Bytes per second in and out, headers of TCP and Ethernet included, and links, of one daemon of each kind.
struct RoleCosts {
  std::size_t links = 0;
  double heartbeats = 0, membership = 0, states = 0, records = 0, leases = 0;
  double total() const { return heartbeats + membership + states + records + leases; }
};
struct ControlCosts {
  ControlSetting setting;
  std::size_t regions = 0;
  RoleCosts node, candidate, bootstrap, trainer;
  double mean = 0;                  // of all daemons
  double table_bytes = 0;           // what a joiner is told once
  double members_microseconds = 0;  // CPU of one look at the table of members, here and now: not deterministic
  double place_microseconds = 0;    // the same for the link plan
};

ControlCosts control_costs(const ControlSetting& setting, std::uint64_t seed);
std::string to_json(const ControlCosts& costs);
void print_control_head();
void print_row(const ControlCosts& costs);

}  // namespace p2pw::fleet
