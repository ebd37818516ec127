#include "simulations/src/fleet/lab.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace p2pw::fleet {

namespace {
// The lab's router is one emulated kernel on one core: busy with four accesses of 200 Mbit/s, it carries some 175 on each.
constexpr double kRouterBytesPerCpuSecond = 4 * 175e6 / 8;
constexpr double kFullPackets = 1514.0 / 1448;
}  // namespace

Result<LabRun> read_lab_run(const std::string& text) {
  auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) {
    return fail(ErrorCode::malformed, "not the JSON that simulations/lab prints: give a file with its last line");
  }
  LabRun run;
  try {
    run.scenario = json.at("scenario");
    run.delta_bytes = json.at("delta_bytes");
    run.bound_seconds = json.at("bound_seconds");
    run.last_node_seconds = json.at("last_node_seconds");
    run.rate_measured = json.at("rate_measured");
    run.first_chunk_fraction = json.at("first_chunk_fraction");
    run.first_chunk_seconds = json.at("first_chunk_seconds");
    run.trainer_copies = json.at("trainer_upload_copies");
    run.copies = json.at("wan_payload_copies").get<std::map<std::string, double>>();
    run.wire_copies = json.at("wan_wire_copies").get<std::map<std::string, double>>();
    run.cpu_per_gib = json.at("cpu_seconds_per_gib").get<std::map<std::string, double>>();
    run.other_cpu_share = json.at("other_cpu_share");
  } catch (const nlohmann::json::exception& e) {
    return fail(ErrorCode::malformed, std::string("the lab's JSON lacks something: ") + e.what());
  }
  return run;
}

Scenario as_in_lab(Scenario s, const LabRun& lab, double cores) {
  // Headers, acknowledgements and TLS: what the wire carried for each byte of payload.
  double wire = kFullPackets, farthest = 0;
  for (auto& [region, copies] : lab.wire_copies) {
    auto payload = lab.copies.find(region);
    if (payload != lab.copies.end() && payload->second > 0) wire = std::max(wire, copies / payload->second);
  }
  double rate = lab.rate_measured / 8 / wire;
  for (RegionSpec& region : s.regions) {
    region.up = std::min(region.up, rate);
    region.down = std::min(region.down, rate);
    farthest = std::max(farthest, region.delay);
  }
  s.trainer_up = std::min(s.trainer_up, rate);
  s.delta_bytes = lab.delta_bytes;
  // The first chunk left this long before it was in the farthest region, with so much of the checkpoint read.
  double left = lab.first_chunk_seconds - farthest - choose_chunk(s) / rate;
  s.encode_start = std::max(0.0, left);
  double whole = s.encode_start / std::max(lab.first_chunk_fraction, 0.01);
  s.encode = s.checkpoint_bytes / std::max(whole - s.encode_start, 0.001);
  auto per_byte = [&](const char* role) {
    auto it = lab.cpu_per_gib.find(role);
    return it == lab.cpu_per_gib.end() ? 0 : it->second / kGiB;
  };
  s.cpu.cores = cores * (1 - lab.other_cpu_share);
  s.cpu.seed = per_byte("seed");
  s.cpu.trainer = per_byte("trainer");
  s.cpu.node = std::max(per_byte("gateway"), per_byte("node"));
  s.cpu.router = 1 / kRouterBytesPerCpuSecond;
  return s;
}

}  // namespace p2pw::fleet
