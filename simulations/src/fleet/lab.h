// The lab's measurements and the simulation of the same scenario, side by side.
#pragma once

#include <string>

#include "protocol/result.h"
#include "simulations/src/fleet/outcome.h"

namespace p2pw::fleet {

// What `simulations/lab SCENARIO --json` printed, as far as it matters here.
struct LabRun {
  std::string scenario;
  double delta_bytes = 0, bound_seconds = 0, last_node_seconds = 0;
  double rate_measured = 0;  // bits per second on the wire, of the slowest access
  double first_chunk_fraction = 0, first_chunk_seconds = 0;
  double trainer_copies = 0;
  std::map<std::string, double> copies, wire_copies;  // by region
  std::map<std::string, double> cpu_per_gib;      // seconds, by role
  double other_cpu_share = 0;
};
Result<LabRun> read_lab_run(const std::string& json);

// The scenario on the machine that ran the lab: its rates, its CPU and how soon its seed was ready. The CPU of the
// emulated router, which the lab does not print, is a constant in lab.cpp.
Scenario as_in_lab(Scenario scenario, const LabRun& lab, double cores);

}  // namespace p2pw::fleet
