#include "simulations/src/fleet/scenario.h"

#include "chunker/bundle_builder.h"

namespace p2pw::fleet {
namespace {

// 1.98 % of the weights change from step to step (the published average of 20.3 of 1024 GiB), at 6.15 bits each.
constexpr double kDeltaShare = 0.0198 * 6.15 / 16;

Scenario policy(std::string name, std::string about, double checkpoint_gib) {
  Scenario s;
  s.name = std::move(name);
  s.about = std::move(about);
  s.checkpoint_bytes = checkpoint_gib * kGiB;
  s.delta_bytes = s.checkpoint_bytes * kDeltaShare;
  return s;
}

// Regions all over the world: the trainer's round trips go from 10 to 220 ms.
void add_regions(Scenario& s, std::size_t count, std::size_t nodes, double access) {
  s.regions.push_back({"home", 0, access, access, 0});
  for (std::size_t i = 0; i < count; ++i) {
    double share = count > 1 ? static_cast<double>(i) / static_cast<double>(count - 1) : 0;
    s.regions.push_back({"r" + std::to_string(i + 1), nodes, access, access, 0.005 + 0.105 * share});
  }
}

Scenario wan_2x3() {
  Scenario s;
  s.name = "wan-2x3";
  s.about = "the lab's: 256 MiB to two regions of three nodes, 200 Mbit/s, 86 and 145 ms round trip";
  s.regions = {{"home", 0, mbit(200), mbit(200), 0},
               {"r1", 3, mbit(200), mbit(200), 0.043},
               {"r2", 3, mbit(200), mbit(200), 0.072}};
  s.trainer_up = mbit(200);
  s.nic = mbit(10'000);
  s.checkpoint_bytes = 392 * kMiB;
  s.delta_bytes = 256 * kMiB;
  s.delta_spread = 0;
  s.versions = 1;
  s.encode = 2e9;  // an anchor, two threads
  s.apply = 4e9;
  return s;
}

Scenario blog_1tib() {
  Scenario s = policy("blog-1tib", "1 TiB policy, regions at 43, 58 and 145 ms round trip, 2 Gbit/s each", 1024);
  s.regions = {{"home", 0, mbit(2000), mbit(2000), 0},
               {"ohio", 8, mbit(2000), mbit(2000), 0.0215},
               {"virginia", 8, mbit(2000), mbit(2000), 0.029},
               {"frankfurt", 8, mbit(2000), mbit(2000), 0.0725}};
  s.trainer_up = mbit(10'000);
  s.interval = 180;
  return s;
}

Scenario regions_16x250() {
  Scenario s = policy("regions-16x250", "1 TiB policy, 16 regions of 250 nodes, 2.5 Gbit/s each", 1024);
  add_regions(s, 16, 250, mbit(2500));
  s.trainer_up = mbit(10'000);
  s.interval = 60;
  return s;
}

Scenario churn_5000() {
  Scenario s = policy("churn-5000", "140 GiB policy, 20 regions of 250 nodes, 1 % of the nodes die in an hour", 140);
  add_regions(s, 20, 250, mbit(1000));
  s.trainer_up = mbit(10'000);
  s.interval = 72;  // 50 versions take an hour
  s.deaths_per_hour = 0.01;
  return s;
}

Scenario slow_region() {
  Scenario s = policy("slow-region", "140 GiB policy, 8 regions of 50 nodes, one with a tenth of the bandwidth", 140);
  add_regions(s, 8, 50, mbit(2000));
  s.regions[4].up = s.regions[4].down = mbit(200);
  s.trainer_up = mbit(10'000);
  s.interval = 120;
  s.versions = 20;
  return s;
}

Scenario publish_30s() {
  Scenario s = policy("publish-30s", "140 GiB policy, 8 regions of 100 nodes, a version every 30 s", 140);
  add_regions(s, 8, 100, mbit(1000));
  s.trainer_up = mbit(10'000);
  s.interval = 30;
  return s;
}

Scenario trainer_1gbit() {
  Scenario s = policy("trainer-1gbit", "140 GiB policy, 8 regions of 100 nodes, a trainer with 1 Gbit/s", 140);
  add_regions(s, 8, 100, mbit(5000));
  s.trainer_up = mbit(1000);
  return s;
}

}  // namespace

std::size_t Scenario::node_count() const {
  std::size_t count = 0;
  for (const RegionSpec& region : regions) count += region.nodes;
  return count;
}

double choose_chunk(const Scenario& s) { return choose_chunk_bytes(static_cast<std::uint64_t>(s.delta_bytes)); }

double version_bytes(const Scenario& s, std::size_t version) {
  // A fixed pattern with mean 1: the golden ratio spreads any number of versions evenly.
  double turn = static_cast<double>(version) * 0.6180339887498949;
  turn -= static_cast<double>(static_cast<std::uint64_t>(turn));
  return s.delta_bytes * (1 + s.delta_spread * (2 * turn - 1));
}

std::vector<std::string> scenario_names() {
  return {"wan-2x3", "blog-1tib", "regions-16x250", "churn-5000", "slow-region", "publish-30s", "trainer-1gbit"};
}

std::optional<Scenario> find_scenario(std::string_view name) {
  using Make = Scenario (*)();
  static constexpr std::pair<std::string_view, Make> kAll[] = {
      {"wan-2x3", wan_2x3},         {"blog-1tib", blog_1tib},     {"regions-16x250", regions_16x250},
      {"churn-5000", churn_5000},   {"slow-region", slow_region}, {"publish-30s", publish_30s},
      {"trainer-1gbit", trainer_1gbit}};
  for (auto& [known, make] : kAll) {
    if (known == name) return make();
  }
  return std::nullopt;
}

}  // namespace p2pw::fleet
