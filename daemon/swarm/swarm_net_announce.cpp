// SwarmNet: which neighbours are told of a chunk, and which chunks they have. See HaveGate and HandingOn.
#include <algorithm>

#include "daemon/swarm/swarm_net.h"
#include "daemon/swarm/swarm_plugins.h"

namespace p2pw {

void SwarmNet::chunk_held(SwarmTorrent& torrent, ChunkIndex chunk) {
  if (stopped_ || torrent.connections.empty()) return;
  announce_again(torrent, chunk, HaveGate::kFan);
  again_.push_back({Clock::now() + HaveGate::kPatience, torrent.id, chunk});
  if (again_.size() == 1) arm_again_timer();
}

void SwarmNet::announced(SwarmTorrent& torrent, ChunkIndex chunk) {
  if (torrent.unshared.erase(chunk) > 0) sink_->chunk_handed_on(torrent.id, chunk);
}

void SwarmNet::announced_all(SwarmTorrent& torrent) {
  for (ChunkIndex chunk : torrent.unshared) sink_->chunk_handed_on(torrent.id, chunk);
  torrent.unshared.clear();
}

bool SwarmNet::alone(const SwarmTorrent& torrent) {
  return std::ranges::none_of(torrent.connections, [](const SwarmConnection* c) { return c->ready(); });
}

bool SwarmNet::handed_on(const SwarmTorrent& torrent, ChunkIndex chunk) {
  return alone(torrent) ||
         std::ranges::any_of(torrent.connections, [&](const SwarmConnection* c) { return c->has(chunk); });
}

void SwarmNet::announce_again(SwarmTorrent& torrent, ChunkIndex chunk, std::size_t most) {
  std::vector<SwarmConnection*> lacking;
  for (SwarmConnection* connection : torrent.connections) {
    if (connection->lacks(chunk)) lacking.push_back(connection);
  }
  const std::size_t first = HaveGate::first_told(chunk, lacking.size());
  for (std::size_t i = 0; i < std::min(most, lacking.size()); ++i) {
    lacking[(first + i) % lacking.size()]->announce(chunk);
  }
}

void SwarmNet::arm_again_timer() {
  again_timer_->expires_at(again_.front().at);
  again_timer_->async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    auto self = weak.lock();
    if (!error && self && !self->stopped_) self->on_again_timer();
  });
}

void SwarmNet::on_again_timer() {
  for (const auto now = Clock::now(); !again_.empty() && again_.front().at <= now; again_.pop_front()) {
    auto it = torrents_.find(again_.front().bundle);
    if (it == torrents_.end()) continue;
    guarded(it->first, [&] { announce_again(*it->second, again_.front().chunk, it->second->connections.size()); });
  }
  if (!again_.empty()) arm_again_timer();
}

}  // namespace p2pw
