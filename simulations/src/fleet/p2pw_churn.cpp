// Machines that die and machines that come.
#include <algorithm>

#include "simulations/src/fleet/p2pw_run.h"

namespace p2pw::fleet {

namespace {
constexpr double kSuspect = 3, kGone = 5;  // seconds of silence
}

void P2pwRun::plan_deaths() {
  double rate = scenario_.deaths_per_hour * static_cast<double>(scenario_.node_count()) / 3600;
  if (rate <= 0) return;
  double end = scenario_.interval * static_cast<double>(scenario_.versions);
  std::exponential_distribution<> wait(rate);
  for (double t = wait(random_); t < end; t += wait(random_)) {
    std::uint64_t pick = random_();
    bool silent = random_() & 1;
    clock_.after(t, [this, pick, silent] {
      std::vector<std::size_t> live;
      for (std::size_t i = 0; i < hosts_.size(); ++i) {
        if (hosts_[i].alive && !hosts_[i].trainer) live.push_back(i);
      }
      if (!live.empty()) kill(live[pick % live.size()], silent);
    });
  }
}

void P2pwRun::kill_gateway_at(double seconds, std::size_t region) {
  clock_.after(seconds, [this, region] {
    for (std::uint32_t b : known_) {
      if (bundles_[b].regions[region].done) continue;
      for (const NodeKey& key : regions_[region].candidates) {
        std::size_t index = host_of_.at(key);
        if (hosts_[index].alive && agents_[index]->spread.is_gateway(bundles_[b].facts.id)) return kill(index, false);
      }
    }
  });
}

// A process that dies closes its connections; a machine that dies is only silent.
void P2pwRun::kill(std::size_t index, bool silent) {
  Host& host = hosts_[index];
  if (!host.alive) return;
  host.alive = false;
  ++outcome_.deaths;
  --regions_[host.region].live;
  flush_swarm(host.region);
  if (host.wired) {
    network_.cut(host.swarm, [this](std::uint64_t tag) {
      free_packets_.push_back(static_cast<std::uint32_t>(tag));
      return true;
    });
  }
  NodeKey key = host.key;
  double suspect = silent ? kSuspect : 0.2;
  clock_.after(suspect, [this, key] {
    for (Member& m : members_) {
      if (m.key == key) m.suspect = true;
    }
    members_changed({key}, {});
  });
  clock_.after(std::max(kGone, suspect), [this, key] {
    std::erase_if(members_, [&](const Member& m) { return m.key == key; });
    members_changed({key}, {});
  });
  std::size_t region = host.region;
  clock_.after(scenario_.rejoin, [this, region] { join(region); });
}

// The new machine copies slabs from its neighbours; from then on it is a node like any other.
void P2pwRun::join(std::size_t region) {
  std::size_t index = add_host(region, false);
  Host& host = hosts_[index];
  double copy = scenario_.checkpoint_bytes / std::min(host.nic, scenario_.apply);
  host.joined = host.staged_at = clock_.seconds() + copy;
  outcome_.lan_join_bytes += scenario_.checkpoint_bytes;
  std::sort(members_.begin(), members_.end(), [](auto& a, auto& b) { return a.key < b.key; });
  members_changed({}, {host.key});
}

void P2pwRun::members_changed(const std::vector<NodeKey>& lost, const std::vector<NodeKey>& back) {
  refresh_candidates();
  for (std::size_t i = 0; i < active_agents_.size(); ++i) {
    std::size_t index = active_agents_[i];
    if (!hosts_[index].alive) continue;
    Spread& spread = agents_[index]->spread;
    for (const NodeKey& key : lost) spread.peer_lost(key);
    for (const NodeKey& key : back) {
      if (key != hosts_[index].key) spread.peer_up(key);
    }
    spread.members_changed();
  }
  states_.set_members(members_);
}

}  // namespace p2pw::fleet
