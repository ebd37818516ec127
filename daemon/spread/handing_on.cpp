#include "daemon/spread/handing_on.h"

namespace p2pw {

bool HandingOn::stored(const Chunk& chunk, SteadyTime now) {
  const Key key{chunk.bundle, chunk.chunk.value()};
  if (index_.contains(key)) return true;
  const bool owed = jammed(now);
  index_[key] = entries_.insert(entries_.end(), {chunk, now, owed});
  return !owed;
}

HandingOn::Entries::iterator HandingOn::erase(Entries::iterator entry) {
  index_.erase({entry->chunk.bundle, entry->chunk.chunk.value()});
  return entries_.erase(entry);
}

HandingOn::Chunks HandingOn::handed_on(const BundleId& bundle, ChunkIndex chunk, SteadyTime now) {
  Chunks out;
  auto it = index_.find({bundle, chunk.value()});
  if (it == index_.end()) return out;
  if (it->second->owed) out.push_back(it->second->chunk);
  erase(it->second);
  settle(now, out);
  return out;
}

HandingOn::Chunks HandingOn::tick(SteadyTime now) {
  Chunks out;
  while (!entries_.empty() && now - entries_.front().at > kForgotten) erase(entries_.begin());
  settle(now, out);
  return out;
}

void HandingOn::settle(SteadyTime now, Chunks& out) {
  const bool jam = jammed(now);
  for (Entry& entry : entries_) {
    if (jam && now - entry.at <= kPatience) break;
    if (entry.owed) out.push_back(entry.chunk);
    entry.owed = false;
  }
}

HandingOn::Chunks HandingOn::forget(const BundleId& bundle) {
  Chunks out;
  for (auto it = entries_.begin(); it != entries_.end();) {
    if (it->chunk.bundle == bundle && it->owed) out.push_back(it->chunk);
    it = it->chunk.bundle == bundle ? erase(it) : std::next(it);
  }
  return out;
}

void HandingOn::peer_lost(const NodeKey& peer) {
  for (Entry& entry : entries_) {
    if (entry.chunk.from == peer) entry.owed = false;
  }
}

}  // namespace p2pw
