// Publishing, staging and dropping versions.
#include <algorithm>

#include "chunker/bundle_builder.h"
#include "simulations/src/fleet/p2pw_run.h"

namespace p2pw::fleet {

namespace {
constexpr std::size_t kMaxIncomplete = 2;  // as the daemon's publisher has it
}

// The daemon's rule: at most two sealed versions may be incomplete in a live region.
bool P2pwRun::gate_open(std::size_t version) const {
  std::size_t incomplete = 0;
  for (std::size_t v = version; v-- > 0 && incomplete < kMaxIncomplete;) {
    if (states_.incomplete_regions(channel_, Version(v + 1)).empty()) break;
    ++incomplete;
  }
  return incomplete < kMaxIncomplete;
}

void P2pwRun::try_publish(std::size_t v) {
  VersionRun& run = versions_[v];
  if (!gate_open(v)) {
    if (run.begun == 0) ++outcome_.delayed_publishes, run.begun = clock_.seconds();
    clock_.after(0.25, [this, v] { try_publish(v); });
    return;
  }
  const Scenario& s = scenario_;
  run.begun = clock_.seconds();
  run.bytes = version_bytes(s, v);
  run.done.assign(regions_.size(), 0);
  run.first.assign(regions_.size(), 0);
  run.last.assign(regions_.size(), 0);
  run.region_done.assign(regions_.size(), false);
  ++unfinished_;
  keep_ticking();
  // Bundles close as the encoder gets along; it takes the same time for each of the version's bytes.
  double encode = s.encode_start + s.checkpoint_bytes / s.encode;
  auto chunk = static_cast<std::uint32_t>(choose_chunk(s));
  BundleSizes sizes(chunk, static_cast<std::uint64_t>(s.delta_bytes));
  auto left = static_cast<std::uint64_t>(run.bytes);
  double made = 0;
  for (std::uint32_t index = 0; left > 0; ++index) {
    std::uint64_t bytes = std::min(left, sizes.target(BundleIndex(index)));
    left -= bytes;
    made += static_cast<double>(bytes);
    double at = std::max(s.encode_start, encode * made / run.bytes);
    if (s.encode_start == 0) at = encode * made / run.bytes;
    clock_.after(at, [this, v, index, bytes, chunk] { close_bundle(v, index, bytes, chunk); });
    ++run.bundles;
  }
  clock_.after(encode, [this, v] { seal(v); });
  if (v + 1 < versions_.size()) clock_.after(s.interval, [this, v] { try_publish(v + 1); });
}

void P2pwRun::close_bundle(std::size_t v, std::uint32_t index, std::uint64_t bytes, std::uint32_t chunk_bytes) {
  Bundle bundle;
  BundleFacts& facts = bundle.facts;
  std::uint64_t words[4] = {next_id_++ * 0x9E3779B97F4A7C15ull, v, index, 0};
  std::memcpy(facts.id.data.data(), words, sizeof words);
  facts.place.channel = channel_;
  std::uint64_t run = (v + 1) * 0xD1B54A32D192ED03ull;
  std::memcpy(facts.place.run.data.data(), &run, sizeof run);
  facts.place.index = BundleIndex(index);
  facts.version = Version(v + 1);
  facts.used_bytes = bytes;
  facts.chunk_bytes = chunk_bytes;
  facts.chunks = static_cast<std::uint32_t>((bytes + chunk_bytes - 1) / chunk_bytes);
  facts.home = p2pw::Region::parse(regions_[0].name).value();
  bundle.version = v;
  bundle.regions.resize(regions_.size());
  for (RegionBundle& region : bundle.regions) region.spread = ChunkSet(facts.chunks);
  auto b = static_cast<std::uint32_t>(bundles_.size());
  bundle_of_[facts.id] = b;
  known_.push_back(b);
  bundles_.push_back(std::move(bundle));
  // Records go from the trainer to an entry node of each region, and from there to everybody.
  for (std::size_t i = 0; i < active_agents_.size(); ++i) {
    std::size_t index_of = active_agents_[i];
    const Host& host = hosts_[index_of];
    if (!host.alive || host.trainer) continue;
    clock_.after(one_way(hosts_[0], host) + scenario_.lan_delay, [this, index_of, b] {
      if (hosts_[index_of].alive && bundle_of_.contains(bundles_[b].facts.id)) learn(*agents_[index_of], b, false);
    });
  }
  learn(*agents_[0], b, true);
  wake_network();
}

void P2pwRun::seal(std::size_t v) {
  versions_[v].sealed = clock_.seconds();
  for (std::size_t r = 0; r < regions_.size(); ++r) maybe_staged(v, r);
  if (scenario_.anchor_every && (v + 1) % scenario_.anchor_every == 0) drop_older(v);
}

// A region has everything: works out when each of its nodes has rebuilt the version.
void P2pwRun::maybe_staged(std::size_t v, std::size_t r) {
  VersionRun& version = versions_[v];
  if (version.sealed < 0 || version.region_done[r] || regions_[r].live == 0) return;
  if (version.done[r] < version.bundles) return;
  version.region_done[r] = true;
  const Scenario& s = scenario_;
  double seal_here = version.sealed + s.regions[0].delay + s.regions[r].delay + s.lan_delay;
  double soonest = 1e18, latest = 0;
  for (std::size_t index : regions_[r].hosts) {
    Host& host = hosts_[index];
    if (!host.alive) continue;
    double arrived = std::max(version.last[r], version.first[r] + version.bytes / host.nic);
    double begin = std::max(version.first[r], host.staged_at);
    double staged = std::max({arrived, seal_here, begin + s.checkpoint_bytes / s.apply}) + s.apply_tail;
    // Who joined meanwhile copied slabs of a version that was newer already, or brings the copy forward with this delta.
    bool counts = host.joined <= version.begun;
    host.staged_at = std::max(host.staged_at, staged);
    auto& times = outcome_.nodes[host.row].staged_after;
    if (times.size() <= v) times.resize(v + 1, -1);
    if (counts) times[v] = static_cast<float>(staged - version.begun);
    soonest = std::min(soonest, staged);
    latest = std::max(latest, staged);
  }
  clock_.at(at_seconds(soonest + s.regions[0].delay + s.regions[r].delay), [this, v, r] {
    // The region's first report of the version reaches the trainer.
    for (std::size_t index : regions_[r].hosts) {
      if (!hosts_[index].alive) continue;
      wire::NodeState state;
      state.set_node(std::string(hosts_[index].key.text()));
      state.set_channel(channel_.str());
      state.set_region(regions_[r].name);
      state.set_version_staged(v + 1);
      state.set_at_ms(static_cast<std::uint64_t>(clock_.seconds() * 1000) + 1);
      states_.hear(state, members_);
      break;
    }
  });
  clock_.at(at_seconds(latest), [this, v] {
    VersionRun& done = versions_[v];
    if (done.complete) return;
    for (std::size_t i = 0; i < regions_.size(); ++i) {
      if (regions_[i].live > 0 && !done.region_done[i]) return;
    }
    done.complete = true;
    --unfinished_;
  });
}

void P2pwRun::drop_older(std::size_t v) {
  std::vector<std::uint32_t> kept;
  for (std::uint32_t b : known_) {
    Bundle& bundle = bundles_[b];
    if (bundle.version >= v || !versions_[bundle.version].complete) {
      kept.push_back(b);
      continue;
    }
    for (std::size_t index : active_agents_) agents_[index]->spread.forget(bundle.facts.id);
    bundle_of_.erase(bundle.facts.id);
    for (RegionBundle& region : bundle.regions) region.spread = {};
  }
  known_ = std::move(kept);
}

}  // namespace p2pw::fleet
