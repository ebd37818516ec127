#include "daemon/spread/region_feeds.h"

#include <algorithm>

namespace p2pw {
namespace {

using std::chrono::microseconds;
using Seconds = std::chrono::duration<double>;

// A lane that comes late does not get everything until it has caught up with the others.
constexpr std::uint64_t kLead = 4u << 20;
// What it takes to give a bundle to somebody else: what is under way arrives, a message there and back, and a
// tick.
constexpr int kRoundTripsToRelieve = 2;
constexpr double kSecondsToRelieve = 0.1;
constexpr std::chrono::milliseconds kSlowFor{1000};

}  // namespace

const char* Feed::name_of(State state) {
  switch (state) {
    case State::unassigned:
      return "unassigned";
    case State::waiting:
      return "waiting";
    case State::flowing:
      return "flowing";
    case State::draining:
      return "draining";
    case State::recalled:
      return "recalled";
    case State::done:
      return "done";
    case State::declined:
      return "declined";
  }
  return "";
}

bool Feed::promised() const {
  return state != State::unassigned && state != State::declined && state != State::done;
}

ChunkSet Feed::sendable() const {
  ChunkSet chunks = wanted;
  chunks &= held;
  return chunks;
}

std::uint64_t Feed::wanted_bytes() const {
  return std::min<std::uint64_t>(std::uint64_t(wanted.count()) * bundle.chunk_bytes, bundle.used_bytes);
}

std::uint64_t Feed::in_flight_bytes() const {
  std::uint64_t bytes = 0;
  for (auto& [chunk, flight] : in_flight) bytes += flight.bytes;
  return bytes;
}

std::uint64_t RegionFeeds::queued_for(const NodeKey& gateway) const {
  std::uint64_t bytes = 0;
  for (auto& [order, feed] : open) {
    const bool goes_on = feed->state == Feed::State::flowing || feed->state == Feed::State::waiting;
    if (goes_on && feed->lease.holder == gateway) bytes += feed->wanted_bytes();
  }
  return bytes;
}

RegionFeeds::Order RegionFeeds::Order::last_of(const Channel& channel) {
  BundleId last;
  last.data.fill(0xff);
  return {channel, Kind::anchor, Version(UINT64_MAX), BundleIndex(UINT32_MAX), last};
}

std::map<RegionFeeds::Lane, Feed*> RegionFeeds::heads(std::size_t parallel_gateways) {
  std::map<Lane, Feed*> heads;
  for (auto it = open.begin(); it != open.end();) {
    const auto end = open.upper_bound(Order::last_of(it->first.channel));
    for (std::size_t gateways = 0; it != end && gateways < parallel_gateways; ++it) {
      Feed& feed = *it->second;
      if (feed.state != Feed::State::flowing || heads.contains(lane_of(feed)) || feed.sendable().none()) continue;
      heads.emplace(lane_of(feed), &feed);
      ++gateways;
    }
    it = end;
  }
  return heads;
}

Feed* RegionFeeds::next(std::size_t parallel_gateways, SteadyTime now) {
  const auto candidates = heads(parallel_gateways);
  std::uint64_t slack = 0;
  std::set<NodeKey> gateways;
  for (auto& [lane, feed] : candidates) {
    slack = std::max<std::uint64_t>(slack, feed->bundle.chunk_bytes);
    gateways.insert(lane.second);
  }
  if (candidates.empty() || !credit.may_send(slack)) return nullptr;
  // One that has stopped must not swallow the shares of the others.
  const std::uint64_t share = (credit.window() + slack) / gateways.size();
  Feed* next = nullptr;
  for (auto& [lane, feed] : candidates) {
    if (pace.under_way(lane.second) >= (pace.behind(lane.second, now) ? share / 2 : share)) continue;
    if (!next || turn[lane] < turn[lane_of(*next)]) next = feed;
  }
  return next;
}

void RegionFeeds::note_sent(Feed& feed, ChunkIndex chunk, SteadyTime now) {
  const std::uint32_t bytes = feed.bundle.bytes_of(chunk);
  if (feed.in_flight.empty()) feed.progress = now;
  feed.wanted.remove(chunk);
  feed.in_flight[chunk.value()] = {now, bytes};
  credit.sent(bytes, now);
  pace.sent(feed.lease.holder, bytes, now);
  std::uint64_t most = 0;
  for (auto& [key, sent] : turn) most = std::max(most, sent);
  auto& own = turn[lane_of(feed)];
  own = std::max(own, most > kLead ? most - kLead : 0) + bytes;
}

void RegionFeeds::note_acked(Feed& feed, std::map<std::uint32_t, Feed::InFlight>::iterator chunk,
                             SteadyTime now, microseconds round_trip) {
  const Feed::InFlight flight = chunk->second;
  heard = feed.progress = now;
  pace.acked(feed.lease.holder, flight.bytes, flight.at, now);
  credit.acked(flight.bytes, now, std::chrono::duration_cast<microseconds>(now - flight.at), round_trip);
  feed.in_flight.erase(chunk);
  ++feed.acked;
}

std::uint64_t RegionFeeds::lose(Feed& feed) {
  const std::uint64_t bytes = feed.in_flight_bytes();
  for (auto& [chunk, flight] : feed.in_flight) {
    credit.lost(flight.bytes);
    pace.lost(feed.lease.holder, flight.bytes, flight.at);
    feed.wanted.add(ChunkIndex(chunk));
  }
  feed.in_flight.clear();
  return bytes;
}

double RegionFeeds::seconds_left() const {
  std::uint64_t bytes = 0;
  for (auto& [order, feed] : open) {
    if (feed->state != Feed::State::declined) bytes += feed->wanted_bytes() + feed->in_flight_bytes();
  }
  return static_cast<double>(bytes) / std::max(credit.bytes_per_second(), 1.0);
}

bool RegionFeeds::region_waits_for(const NodeKey& gateway, microseconds round_trip, SteadyTime now) const {
  if (!pace.behind(gateway, now)) return false;
  const auto bytes = static_cast<double>(pace.under_way(gateway) + queued_for(gateway));
  const double needs = bytes / std::max(pace.rate(gateway, now), 1.0);
  return needs > seconds_left() + Seconds(kRoundTripsToRelieve * round_trip).count() + kSecondsToRelieve;
}

std::vector<NodeKey> RegionFeeds::too_slow(const std::function<microseconds(const NodeKey&)>& round_trip,
                                           SteadyTime now) {
  std::set<NodeKey> laden;
  for (auto& [order, feed] : open) {
    if (feed->state == Feed::State::flowing) laden.insert(feed->lease.holder);
  }
  std::erase_if(laden, [&](const NodeKey& key) { return !region_waits_for(key, round_trip(key), now); });
  std::erase_if(slow_since_, [&](auto& slow) { return !laden.contains(slow.first); });
  std::vector<NodeKey> out;
  for (const NodeKey& gateway : laden) {
    const SteadyTime since = slow_since_.try_emplace(gateway, now).first->second;
    if (now - since >= kSlowFor) out.push_back(gateway);
  }
  return out;
}

}  // namespace p2pw
