#include "daemon/core/slab_fetch.h"

#include <algorithm>

namespace p2pw {

void SlabFetch::want(SlabId slab) {
  if (slabs_.try_emplace(slab).second) queue_.push_back(slab);
}

void SlabFetch::put_off(SlabId slab, Wish& wish, SteadyTime until) {
  if (wish.under_way) {
    wish.under_way = false;
    --under_way_;
    if (auto load = load_.find(wish.asked); load != load_.end() && load->second > 0) --load->second;
  }
  wish.at = until;
  queue_.push_back(slab);
}

void SlabFetch::forget(SlabId slab) {
  auto it = slabs_.find(slab);
  if (it == slabs_.end()) return;
  if (it->second.under_way) {
    --under_way_;
    if (auto load = load_.find(it->second.asked); load != load_.end() && load->second > 0) --load->second;
  }
  slabs_.erase(it);
}

void SlabFetch::forget_all() {
  slabs_.clear();
  queue_.clear();
  load_.clear();
  under_way_ = 0;
}

bool SlabFetch::answered(const NodeKey& peer, SlabId slab, bool gone, SteadyTime now) {
  auto it = slabs_.find(slab);
  if (it == slabs_.end() || !it->second.under_way || it->second.asked != peer) return false;
  if (gone) {
    it->second.declined.insert(peer);
    put_off(slab, it->second, now);
  } else {
    forget(slab);
  }
  return true;
}

void SlabFetch::again(SlabId slab, SteadyTime now) {
  auto [it, inserted] = slabs_.try_emplace(slab);
  if (inserted || it->second.under_way) put_off(slab, it->second, now + kPause);
}

void SlabFetch::bad(const NodeKey& peer, SteadyTime now) { banned_[peer] = now + kBanned; }

void SlabFetch::peer_lost(const NodeKey& peer) {
  for (auto& [slab, wish] : slabs_) {
    if (wish.under_way && wish.asked == peer) put_off(slab, wish, {});
  }
  load_.erase(peer);
}

void SlabFetch::tick(const std::vector<NodeKey>& neighbours, SteadyTime now) {
  if (slabs_.empty()) {
    queue_.clear();
    return;
  }
  for (auto& [slab, wish] : slabs_) {
    if (!wish.under_way || now - wish.at < kPatience) continue;
    wish.declined.insert(wish.asked);
    put_off(slab, wish, now);
  }
  fill(neighbours, now);
}

void SlabFetch::fill(const std::vector<NodeKey>& neighbours, SteadyTime now) {
  const std::size_t room = std::min(kInAll, kPerPeer * neighbours.size());
  for (std::size_t left = queue_.size(); left > 0 && under_way_ < room; --left) {
    SlabId slab = queue_.front();
    queue_.pop_front();
    auto it = slabs_.find(slab);
    if (it == slabs_.end() || it->second.under_way) continue;
    Wish& wish = it->second;
    const NodeKey* best = nullptr;
    bool somebody = false;  // who could be asked once there is room
    if (wish.at <= now) {
      for (const NodeKey& peer : neighbours) {
        auto banned = banned_.find(peer);
        if (wish.declined.contains(peer) || (banned != banned_.end() && banned->second > now)) continue;
        somebody = true;
        if (load_[peer] < kPerPeer && (best == nullptr || load_[peer] < load_[*best])) best = &peer;
      }
      if (!somebody) {
        // Everybody has declined: a new round, a little later.
        wish.declined.clear();
        wish.at = now + kPause;
      }
    }
    if (best == nullptr) {
      queue_.push_back(slab);
      continue;
    }
    wish.asked = *best;
    wish.under_way = true;
    wish.at = now;
    ++load_[*best];
    ++under_way_;
    ask_(*best, slab);
  }
}

}  // namespace p2pw
