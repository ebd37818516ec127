#include "tests/support/fake_links.h"

#include <algorithm>

namespace p2pw::testing {
namespace {

std::uint64_t size_of(const wire::LinkMessage& message, const SharedBytes& payload) {
  return 8 + message.ByteSizeLong() + (payload ? payload->size() : 0);
}

}  // namespace

// The hub's side.

void LoopbackHub::dial(const LinkEndpoint& endpoint, std::optional<NodeKey> expected) {
  targets_[endpoint] = expected;
  net_.schedule_dial(key_, endpoint, FakeLinks::Duration(0));
}

void LoopbackHub::undial(const NodeKey& peer) {
  std::erase_if(targets_, [&](const auto& target) {
    auto place = net_.places_.find(target.first);
    return target.second == peer || (place != net_.places_.end() && place->second == peer);
  });
  drop(peer, fail(ErrorCode::interrupted, "the link is not needed any more"));
}

void LoopbackHub::undial(const LinkEndpoint& endpoint) {
  targets_.erase(endpoint);
  if (auto place = net_.places_.find(endpoint); place != net_.places_.end()) {
    drop(place->second, fail(ErrorCode::interrupted, "the link is not needed any more"));
  }
}

bool LoopbackHub::linked(const NodeKey& peer) const {
  return !dead_ && net_.has_link(key_, peer);
}

std::vector<NodeKey> LoopbackHub::links() const {
  std::vector<NodeKey> keys;
  for (const auto& [pair, end] : net_.ends_) {
    if (pair.first == key_) keys.push_back(pair.second);
  }
  return keys;
}

void LoopbackHub::send(const NodeKey& peer, const wire::LinkMessage& message, SharedBytes payload) {
  if (!linked(peer)) return;
  net_.totals_[{key_, peer}].control_sent += size_of(message, payload);
  net_.carry(key_, peer, {message, std::move(payload)});
}

bool LoopbackHub::send_chunk(const NodeKey& peer, const wire::Chunk& chunk, SharedBytes payload) {
  wire::LinkMessage message;
  *message.mutable_chunk() = chunk;
  return send_bulk(peer, message, std::move(payload));
}

bool LoopbackHub::send_bulk(const NodeKey& peer, const wire::LinkMessage& message, SharedBytes payload) {
  if (!linked(peer)) return false;
  net_.totals_[{key_, peer}].stripe_queue += payload ? payload->size() : 0;
  net_.ends_[{key_, peer}].waiting.push_back({message, std::move(payload)});
  net_.transmit(key_, peer);
  return true;
}

void LoopbackHub::cut_queue(const NodeKey& peer, const BundleId& bundle) {
  auto end = net_.ends_.find({key_, peer});
  if (end == net_.ends_.end()) return;
  std::erase_if(end->second.waiting, [&](const FakeLinks::Cargo& cargo) {
    if (!cargo.message.has_chunk() || cargo.message.chunk().bundle() != bundle.text()) return false;
    net_.totals_[{key_, peer}].stripe_queue -= cargo.payload ? cargo.payload->size() : 0;
    return true;
  });
}

void LoopbackHub::drop(const NodeKey& peer, const Error& reason) {
  if (linked(peer)) net_.end_link(key_, peer, reason);
}

void LoopbackHub::ban(const NodeKey& peer, const std::string& reason) {
  banned_.insert(peer);
  std::erase_if(targets_, [&](const auto& target) { return target.second == peer; });
  drop(peer, fail(ErrorCode::untrusted, "banned: " + reason));
}

std::optional<LinkStats> LoopbackHub::stats(const NodeKey& peer) const {
  auto totals = net_.totals_.find({key_, peer});
  if (totals == net_.totals_.end()) return std::nullopt;
  LinkStats stats = totals->second;
  if (linked(peer)) {
    using std::chrono::duration_cast;
    const auto path = net_.path(key_, peer);
    const auto offset = duration_cast<std::chrono::microseconds>(path.clock_offset);
    stats.round_trip =
        std::max(duration_cast<std::chrono::microseconds>(path.delay * 2), std::chrono::microseconds(1));
    stats.clock_offset = key_ < peer ? offset : -offset;
    stats.rate_bits = path.rate_bits;
    stats.stripes = 1;
  }
  return stats;
}

std::optional<std::chrono::steady_clock::time_point> LoopbackHub::last_heard(const NodeKey& peer) const {
  if (!linked(peer)) return std::nullopt;
  // Heartbeats are not played through: a healthy peer was heard at most one beat ago.
  const bool healthy = !net_.cut_between(key_, peer) && !net_.nodes_.at(peer)->hung_;
  return healthy ? net_.now_ : net_.ends_.at({key_, peer}).heard;
}

// The network's side.

LoopbackHub& FakeLinks::add(const NodeKey& key, const wire::Hello& hello, LinkHandler& handler) {
  auto& node = nodes_[key];
  node.reset(new LoopbackHub(*this, key, hello, handler));
  node->hello_.set_node(std::string(key.text()));
  places_[endpoint_of(key)] = key;
  return *node;
}

LinkEndpoint FakeLinks::endpoint_of(const NodeKey& key) {
  return {"node-" + key.short_hex(), 4710};
}

void FakeLinks::set_path(const NodeKey& a, const NodeKey& b, Path path) {
  if (b < a) path.clock_offset = -path.clock_offset;
  paths_[pair_of(a, b)] = path;
}

FakeLinks::Path FakeLinks::path(const NodeKey& a, const NodeKey& b) const {
  auto it = paths_.find(pair_of(a, b));
  return it == paths_.end() ? default_path_ : it->second;
}

bool FakeLinks::has_link(const NodeKey& from, const NodeKey& to, std::uint64_t link) const {
  auto end = ends_.find({from, to});
  return end != ends_.end() && end->second.link == link;
}

// Trouble.

void FakeLinks::cut(const NodeKey& a, const NodeKey& b) {
  if (!cuts_.insert(pair_of(a, b)).second) return;
  for (const auto& [local, peer] : {Pair{a, b}, Pair{b, a}}) {
    auto end = ends_.find({local, peer});
    if (end == ends_.end()) continue;
    end->second.heard = now_;
    watch_silence(local, peer, end->second.link);
  }
}

void FakeLinks::heal(const NodeKey& a, const NodeKey& b) {
  cuts_.erase(pair_of(a, b));
  for (const auto& [local, peer] : {Pair{a, b}, Pair{b, a}}) {
    auto end = ends_.find({local, peer});
    if (end == ends_.end()) continue;
    auto held = std::exchange(end->second.held, {});
    for (Cargo& cargo : held) deliver(peer, local, end->second.link, std::move(cargo));
    transmit(local, peer);
  }
}

void FakeLinks::watch_silence(const NodeKey& local, const NodeKey& peer, std::uint64_t link) {
  after(kSilence, [this, local, peer, link] {
    const bool silent = cut_between(local, peer) || nodes_.at(local)->hung_ || nodes_.at(peer)->hung_;
    if (silent && has_link(local, peer, link))
      end_half(local, peer, fail(ErrorCode::timed_out, "nothing heard for 5000 ms"));
  });
}

void FakeLinks::kill(const NodeKey& key) {
  LoopbackHub& node = *nodes_.at(key);
  if (node.dead_) return;
  const auto peers = node.links();
  node.dead_ = true;
  node.hung_ = false;
  node.targets_.clear();
  node.banned_.clear();
  node.missed_.clear();
  for (const NodeKey& peer : peers) {
    const std::uint64_t link = ends_.at({key, peer}).link;
    ends_.erase({key, peer});
    if (cut_between(key, peer)) continue;
    after(path(key, peer).delay, [this, peer, key, link] {
      if (has_link(peer, key, link))
        end_half(peer, key, fail(ErrorCode::io, "the peer closed the connection"));
    });
  }
}

void FakeLinks::revive(const NodeKey& key) {
  nodes_.at(key)->dead_ = false;
}

void FakeLinks::hang(const NodeKey& key) {
  nodes_.at(key)->hung_ = true;
  for (const NodeKey& peer : nodes_.at(key)->links()) {
    for (const auto& [local, other] : {Pair{key, peer}, Pair{peer, key}}) {
      auto end = ends_.find({local, other});
      if (end == ends_.end()) continue;
      end->second.heard = now_;
      watch_silence(local, other, end->second.link);
    }
  }
}

void FakeLinks::resume(const NodeKey& key) {
  LoopbackHub& node = *nodes_.at(key);
  node.hung_ = false;
  for (const NodeKey& peer : node.links()) {
    End& end = ends_.at({key, peer});
    auto held = std::exchange(end.held, {});
    for (Cargo& cargo : held) deliver(peer, key, end.link, std::move(cargo));
    transmit(key, peer);
  }
  auto missed = std::exchange(node.missed_, {});
  for (auto& event : missed) event();
}

// Links.

void FakeLinks::schedule_dial(const NodeKey& from, const LinkEndpoint& endpoint, Duration pause) {
  if (!nodes_.at(from)->dialling_.insert(endpoint).second) return;
  after(pause, [this, from, endpoint] {
    nodes_.at(from)->dialling_.erase(endpoint);
    try_dial(from, endpoint);
  });
}

void FakeLinks::redial(const NodeKey& from, const NodeKey& to) {
  for (const auto& [endpoint, expected] : nodes_.at(from)->targets_) {
    auto place = places_.find(endpoint);
    if (place != places_.end() && place->second == to) schedule_dial(from, endpoint, kRedial);
  }
}

void FakeLinks::try_dial(const NodeKey& from, const LinkEndpoint& endpoint) {
  LoopbackHub& node = *nodes_.at(from);
  auto target = node.targets_.find(endpoint);
  if (node.dead_ || target == node.targets_.end()) return;
  auto place = places_.find(endpoint);
  if (place == places_.end()) return schedule_dial(from, endpoint, kRedial);
  const NodeKey to = place->second;
  if (has_link(from, to)) return;  // dialled again when it ends
  const LoopbackHub& peer = *nodes_.at(to);
  const bool refused = (target->second && *target->second != to) || to == from || node.banned_.contains(to) ||
                       peer.banned_.contains(from);
  if (refused || peer.dead_ || peer.hung_ || node.hung_ || cut_between(from, to) || has_link(to, from)) {
    return schedule_dial(from, endpoint, kRedial);
  }
  // TCP, TLS and both proofs take three round trips.
  node.dialling_.insert(endpoint);
  after(path(from, to).delay * 6, [this, from, to, endpoint] {
    nodes_.at(from)->dialling_.erase(endpoint);
    connect(from, to, endpoint);
  });
}

void FakeLinks::connect(const NodeKey& from, const NodeKey& to, const LinkEndpoint& endpoint) {
  LoopbackHub &a = *nodes_.at(from), &b = *nodes_.at(to);
  if (has_link(from, to) || !a.targets_.contains(endpoint)) return;
  if (a.dead_ || b.dead_ || a.hung_ || b.hung_ || cut_between(from, to) || has_link(to, from)) {
    return schedule_dial(from, endpoint, kRedial);
  }
  const std::uint64_t link = ++link_count_;
  ends_[{from, to}].link = link;
  ends_[{to, from}].link = link;
  totals_[{from, to}];
  totals_[{to, from}];
  a.handler_.link_up(to, b.hello_);
  if (has_link(to, from, link)) b.handler_.link_up(from, a.hello_);
}

void FakeLinks::end_link(const NodeKey& local, const NodeKey& peer, const Error& reason) {
  const std::uint64_t link = ends_.at({local, peer}).link;
  // Never from inside the call that ended it.
  ends_.erase({local, peer});
  totals_[{local, peer}].stripe_queue = 0;
  after(Duration(0), [this, local, peer, reason] {
    if (!nodes_.at(local)->dead_) nodes_.at(local)->handler_.link_down(peer, reason);
    redial(local, peer);
  });
  const Error heard = fail(ErrorCode::interrupted, "closed the link: " + reason.message);
  after(cut_between(local, peer) ? Duration(kSilence) : path(local, peer).delay,
        [this, local, peer, link, heard] {
          if (has_link(peer, local, link)) end_half(peer, local, heard);
        });
}

void FakeLinks::end_half(const NodeKey& local, const NodeKey& peer, const Error& reason) {
  ends_.erase({local, peer});
  totals_[{local, peer}].stripe_queue = 0;
  LoopbackHub& node = *nodes_.at(local);
  if (node.dead_) return;
  auto tell = [this, local, peer, reason] {
    nodes_.at(local)->handler_.link_down(peer, reason);
    redial(local, peer);
  };
  if (node.hung_) {
    node.missed_.push_back(tell);
  } else {
    tell();
  }
}

// Messages.

// Chunks leave one after the other at the path's rate.
void FakeLinks::transmit(const NodeKey& from, const NodeKey& to) {
  auto it = ends_.find({from, to});
  if (it == ends_.end() || it->second.busy || it->second.waiting.empty()) return;
  if (nodes_.at(from)->hung_ || cut_between(from, to)) return;
  End& end = it->second;
  Cargo cargo = std::move(end.waiting.front());
  end.waiting.erase(end.waiting.begin());
  end.busy = true;
  const std::uint64_t bytes = cargo.payload ? cargo.payload->size() : 0;
  const std::uint64_t rate = path(from, to).rate_bits;
  const auto takes = std::chrono::nanoseconds(
      rate == 0 ? 0
                : static_cast<std::int64_t>(static_cast<double>(bytes) * 8e9 / static_cast<double>(rate)));
  after(takes, [this, from, to, bytes, link = end.link, cargo = std::move(cargo)]() mutable {
    if (!has_link(from, to, link)) return;
    LinkStats& totals = totals_[{from, to}];
    (cargo.message.has_chunk() ? totals.payload_sent : totals.bulk_sent) += bytes;
    totals.stripe_queue -= std::min(totals.stripe_queue, bytes);
    ends_[{from, to}].busy = false;
    carry(from, to, std::move(cargo));
    transmit(from, to);
  });
}

void FakeLinks::carry(const NodeKey& from, const NodeKey& to, Cargo cargo) {
  after(path(from, to).delay,
        [this, from, to, link = ends_.at({from, to}).link, cargo = std::move(cargo)]() mutable {
          deliver(from, to, link, std::move(cargo));
        });
}

void FakeLinks::deliver(const NodeKey& from, const NodeKey& to, std::uint64_t link, Cargo cargo) {
  if (!has_link(to, from, link)) return;
  if (nodes_.at(to)->hung_ || cut_between(from, to)) {
    ends_.at({to, from}).held.push_back(std::move(cargo));
    return;
  }
  hand_over(from, to, cargo);
}

void FakeLinks::hand_over(const NodeKey& from, const NodeKey& to, const Cargo& cargo) {
  if (nodes_.at(to)->dead_) return;
  LinkStats& totals = totals_[{to, from}];
  const std::uint64_t bytes = cargo.payload ? cargo.payload->size() : 0;
  if (cargo.message.has_chunk()) {
    totals.payload_received += bytes;
  } else if (cargo.message.has_slab()) {
    totals.bulk_received += bytes;
  } else {
    totals.control_received += size_of(cargo.message, cargo.payload);
  }
  nodes_.at(to)->handler_.link_message(from, cargo.message, cargo.payload ? *cargo.payload : Bytes());
}

void FakeLinks::at(Time when, std::function<void()> action) {
  events_.push({std::max(when, now_), ++order_, std::move(action)});
}

void FakeLinks::run_for(Duration duration) {
  const Time end = now_ + duration;
  while (!events_.empty() && events_.top().when <= end) {
    Event next = events_.top();
    events_.pop();
    now_ = next.when;
    next.action();
  }
  now_ = end;
}

bool FakeLinks::run_until(const std::function<bool()>& done, Duration bound) {
  const Time end = now_ + bound;
  while (!done()) {
    if (events_.empty() || events_.top().when > end) {
      now_ = end;
      return done();
    }
    Event next = events_.top();
    events_.pop();
    now_ = next.when;
    next.action();
  }
  return true;
}

std::uint64_t FakeLinks::payload_between(const NodeKey& from, const NodeKey& to) const {
  auto it = totals_.find({from, to});
  return it == totals_.end() ? 0 : it->second.payload_sent;
}

}  // namespace p2pw::testing
