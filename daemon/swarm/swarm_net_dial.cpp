// SwarmNet: whom to dial, and when. See Neighbours and DialTimer.
#include <algorithm>
#include <libtorrent/address.hpp>
#include <libtorrent/info_hash.hpp>

#include "daemon/swarm/session_settings.h"
#include "daemon/swarm/swarm_net.h"
#include "daemon/swarm/swarm_plugins.h"

namespace p2pw {
namespace {

constexpr std::size_t kMaxRefused = 4096;
constexpr int kDialBudget =
    200;  // libtorrent dials at most 255 times at once per torrent before it wants a pause

std::optional<lt::tcp::endpoint> endpoint_of(const SwarmPeer& member) {
  lt::error_code error;
  const lt::address address = lt::make_address(member.address, error);
  if (error) return std::nullopt;
  return lt::tcp::endpoint(address, member.port);
}

lt::sha1_hash wire_hash(const lt::torrent_handle& handle) {
  return handle.info_hashes().get(lt::protocol_version::V2);
}

}  // namespace

// Members that dialled us before we had the bundle.
void SwarmNet::dial_refused(SwarmTorrent& torrent) {
  auto it = refused_.find(wire_hash(torrent.handle));
  if (it == refused_.end()) return;
  for (const std::string& address : it->second) {
    for (const SwarmPeer& member : neighbours_.at(address)) {
      if (auto endpoint = endpoint_of(member)) torrent.handle.connect_peer(*endpoint);
    }
  }
  refused_.erase(it);
}

void SwarmNet::refused_unknown(const lt::sha1_hash& info_hash, const std::string& address) {
  if (!neighbours_.knows(address)) return;
  auto [it, fresh] = refused_.try_emplace(info_hash);
  it->second.insert(address);
  if (fresh) refused_order_.push_back(info_hash);
  while (refused_order_.size() > kMaxRefused) {
    refused_.erase(refused_order_.front());
    refused_order_.pop_front();
  }
}

bool SwarmNet::connected(const SwarmTorrent& torrent, const SwarmPeer& member) const {
  return std::any_of(torrent.connections.begin(), torrent.connections.end(),
                     [&](const SwarmConnection* connection) { return connection->belongs_to(member); });
}

bool SwarmNet::misses_somebody(const SwarmTorrent& torrent) const {
  const Clock::time_point now = Clock::now();
  return std::any_of(torrent.to_dial.begin(), torrent.to_dial.end(), [&](const SwarmPeer& member) {
    if (torrent.blocked.contains(member.address)) return false;
    auto quiet = quiet_until_.find(member.key);
    if (quiet != quiet_until_.end() && now < quiet->second) return false;
    return !connected(torrent, member);
  });
}

// libtorrent dials what connect_peer() names at its next second; only when a torrent is resumed it dials at
// once. So it is paused and resumed, where on_pause() of our plugin says that the pause is not to be carried
// out.
void SwarmNet::dial(SwarmTorrent& torrent) {
  for (const SwarmPeer& member : torrent.to_dial) {
    if (torrent.blocked.contains(member.address) || connected(torrent, member)) continue;
    if (auto endpoint = endpoint_of(member)) torrent.handle.connect_peer(*endpoint);
  }
  never_give_up_on_peers(session_, ++dials_ % 2 != 0);
  // A real pause fills libtorrent's budget again; without connections there is nothing that it could
  // interrupt.
  const bool refill = torrent.dials > kDialBudget && torrent.connections.empty();
  if (refill) torrent.dials = 0;
  dialling_ = !refill;
  torrent.handle.pause();
  dialling_ = false;
  torrent.handle.resume();
  plan_dial(torrent);
}

void SwarmNet::plan_dial(SwarmTorrent& torrent) {
  if (stopped_ || !torrents_.contains(torrent.id) || !misses_somebody(torrent)) return;
  torrent.dial_timer.plan(Clock::now());
  arm_dial_timer();
}

void SwarmNet::arm_dial_timer() {
  std::optional<Clock::time_point> next;
  for (const auto& [id, torrent] : torrents_) {
    if (auto at = torrent->dial_timer.at(); at && (!next || *at < *next)) next = at;
  }
  if (!next || !dial_timer_) return;
  dial_timer_->expires_at(*next);
  dial_timer_->async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    auto self = weak.lock();
    if (!error && self && !self->stopped_) self->on_dial_timer();
  });
}

void SwarmNet::on_dial_timer() {
  const Clock::time_point now = Clock::now();
  for (auto& [id, torrent] : torrents_) {
    if (!torrent->dial_timer.due(now) || !misses_somebody(*torrent)) continue;
    guarded(id, [&, t = torrent.get()] { dial(*t); });
  }
  arm_dial_timer();
}

}  // namespace p2pw
