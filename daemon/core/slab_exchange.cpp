#include "daemon/core/slab_exchange.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace p2pw {
namespace {

constexpr std::uint64_t kNothingNeeded = ~std::uint64_t(0);  // takes a pin back

}  // namespace

SlabExchange::SlabExchange(const ChannelLog& log, SlotPair& slots, Rebuilder& rebuilder, WorkPool& pool, World world)
    : log_(log),
      slots_(slots),
      rebuilder_(rebuilder),
      world_(std::move(world)),
      server_(log.verifier().channel(), slots, pool, world_.send),
      fetch_([this](const NodeKey& peer, SlabId slab) {
        wire::LinkMessage message;
        message.mutable_slabs_wanted()->set_channel(log_.verifier().channel().str());
        message.mutable_slabs_wanted()->add_slabs(slab.raw());
        world_.send(peer, message, nullptr, false);
      }),
      join_(log, slots.byte_store(), [this](const NodeKey& to, const wire::LinkMessage& message) {
        world_.send(to, message, nullptr, false);
      }) {}

Version SlabExchange::base() const {
  auto active = slots_.active();
  return std::max(active == nullptr ? Version() : active->version(), slots_.standby()->version());
}

// Sealed versions that this node has yet to reach.
std::size_t SlabExchange::behind() const {
  std::size_t count = 0;
  Version here = base();
  for (Version version = log_.highest_sealed(); version > here && count <= kFarBehind;) {
    const Run* run = log_.version(version);
    if (run == nullptr) break;
    ++count;
    version = run->previous();
  }
  return count;
}

bool SlabExchange::undecided() const {
  if (!lineage_.empty() || join_.state() == Join::State::offered) return false;
  if (join_.undecided()) return true;
  if (base().value() == 0) return log_.highest_sealed().value() != 0;
  return behind() > kFarBehind && !by_deltas_ && join_.state() != Join::State::nobody;
}

bool SlabExchange::undecided_about(const Run& run) const {
  const bool unsealed = run.state() == RunState::open && !run.again();
  return !wants(run) && (unsealed || undecided());
}

bool SlabExchange::wants(const Run& run) const {
  // Below a sealed version nothing is in flight.
  if (run.state() == RunState::open && !run.again()) return run.version() > log_.highest_sealed();
  if (!lineage_.empty()) return lineage_.contains(run.id()) || (!run.again() && run.version() > lineage_end_);
  if (run.again() || run.state() != RunState::sealed) return false;
  if (run.version() <= base() && !rebuilder_.needs(run.id())) return false;
  // What lies here of an anchor may make it the cheaper way all the same: then the Rebuilder waits for the rest of it.
  if (join_.state() == Join::State::offered) return run.version() > join_.offer()->version || rebuilder_.needs(run.id());
  bool empty = base().value() == 0;
  if (empty || (behind() > kFarBehind && !by_deltas_ && join_.state() != Join::State::nobody)) return false;
  return true;
}

// A newcomer, or one that is too far behind, looks for a place to start from.
void SlabExchange::look_for_base(SteadyTime now) {
  auto neighbours = world_.neighbours();
  if (join_.undecided()) {
    join_.tick(neighbours, world_.alone(), now);
    settle_join();
    return;
  }
  bool lost = base().value() == 0 ? log_.highest_sealed().value() != 0 : behind() > kFarBehind;
  if (!lost) {
    if (join_.state() == Join::State::nobody) join_.stop();
    by_deltas_ = false;
    return;
  }
  if (join_.state() == Join::State::idle && !by_deltas_) join_.begin(neighbours, now);
}

void SlabExchange::settle_join() {
  if (join_.state() == Join::State::offered && !offered_) {
    const Join::Offer& offer = *join_.offer();
    if (base().value() != 0 && offer.keeps_above <= base()) {
      by_deltas_ = true;
      join_.stop();
      return;
    }
    offered_ = decision_ = true;
    pinned_at_.reset();
    world_.event("join", "starts from version " + std::to_string(offer.version.value()) + " of its neighbours");
    rebuilder_.offer_base(offer.table, offer.version, offer.seal);
  }
  if (join_.state() == Join::State::nobody && base().value() == 0) {
    auto lineage = log_.lineage(log_.highest_sealed());
    if (!lineage || lineage->empty()) return join_.stop();
    take_lineage(*lineage);
    decision_ = true;
    world_.event("join", "no neighbour has a version: takes an anchor and " + std::to_string(lineage->size() - 1) + " deltas");
  }
}

void SlabExchange::take_lineage(const std::vector<RunId>& lineage) {
  lineage_ = std::set<RunId>(lineage.begin(), lineage.end());
  lineage_end_ = log_.highest_sealed();
  const Run* anchor = log_.run(lineage.front());
  lineage_start_ =
      anchor != nullptr && anchor->version().value() > 0 ? Version(anchor->version().value() - 1) : Version();
  pinned_at_.reset();
  lost_deltas_.clear();
}

// The Rebuilder starts with the newest anchor that it knows of; one that is made meanwhile is not what comes here.
void SlabExchange::pass_over_others() {
  if (lineage_.empty()) return;
  std::set<RunId> others = lost_deltas_;
  for (const Run* anchor : log_.anchors()) {
    const bool aside = anchor->again() || anchor->version() <= lineage_end_;
    if (aside && !lineage_.contains(anchor->id())) others.insert(anchor->id());
  }
  rebuilder_.avoid(std::move(others));
}

// Not all that leads from here to the newest version lies here.
bool SlabExchange::lacks_deltas() const {
  auto way = log_.deltas(base(), log_.highest_sealed());
  return !way || !std::all_of(way->begin(), way->end(),
                              [this](const RunId& run) { return rebuilder_.has_all_of(run); });
}

// Since the last look.
bool SlabExchange::somebody_new() {
  const auto links = world_.links();
  const std::set<NodeKey> now(links.begin(), links.end());
  const bool grown = !std::includes(links_.begin(), links_.end(), now.begin(), now.end());
  links_ = now;
  return grown;
}

// The deltas above what lies here may have been dropped everywhere, while an anchor that is newer is still to
// be had, from the trainer or from shared storage. And when that one does not come either, or before it does
// somebody new, then it is the deltas' turn again.
void SlabExchange::look_for_another_way(SteadyTime now) {
  const bool based = base().value() != 0 && log_.highest_sealed() > base() && !joining();
  const bool arrived = std::exchange(arrivals_, rebuilder_.arrivals()) != arrivals_;
  const bool grown = somebody_new();
  if (!based || arrived || !lacking_ || (!anew_ && (grown || !lacks_deltas()))) lacking_ = now;
  if (now - *lacking_ < kStuck && !(anew_ && grown && *lacking_ == anew_since_)) return;
  lacking_ = now;
  if (std::exchange(anew_, false)) {
    lineage_.clear();
    rebuilder_.avoid({});
    return;
  }
  const auto lineage = log_.lineage(log_.highest_sealed());
  const Run* anchor = lineage && !lineage->empty() ? log_.run(lineage->front()) : nullptr;
  if (anchor == nullptr || anchor->version() <= base()) return;
  anew_ = true;
  anew_since_ = now;
  take_lineage(*lineage);
  for (const Run* run = log_.version(anchor->version()); run != nullptr && run->version() > base();
       run = log_.version(run->previous())) {
    if (!lineage_.contains(run->id())) lost_deltas_.insert(run->id());
  }
  world_.event("join", "nobody gives the deltas above version " + std::to_string(base().value()) +
                           ": takes the anchor of version " + std::to_string(anchor->version().value()) +
                           " and " + std::to_string(lineage->size() - 1) + " deltas");
}

void SlabExchange::staged() {
  if (pinned_at_) {
    pinned_at_.reset();
    say_pin(kNothingNeeded, world_.links());
  }
  join_.stop();
  offered_ = anew_ = false;
  lineage_.clear();
  lineage_start_ = lineage_end_ = {};
}

void SlabExchange::blame(const NodeKey& peer, const std::string& what, SteadyTime now) {
  spdlog::warn("channel {}: neighbour {} ({}): {}", log_.verifier().channel().str(), world_.name(peer), peer.short_hex(), what);
  world_.event("neighbour-wrong", world_.name(peer) + " " + peer.short_hex() + ": " + what);
  fetch_.bad(peer, now);
}

bool SlabExchange::message(const NodeKey& from, const wire::LinkMessage& message, Bytes& payload, SteadyTime now) {
  switch (message.body_case()) {
    case wire::LinkMessage::kTableWanted:
      server_.table_wanted(from, world_.keeps_above());
      return true;
    case wire::LinkMessage::kTable:
      if (auto taken = join_.table(from, message.table(), payload); !taken) blame(from, taken.error().message, now);
      return true;
    case wire::LinkMessage::kSlabsWanted:
      server_.wanted(from, message.slabs_wanted());
      return true;
    case wire::LinkMessage::kSlab:
      slab(from, message.slab(), std::move(payload), now);
      return true;
    case wire::LinkMessage::kLineagePin:
      pins_.erase(from);
      if (message.lineage_pin().above() == kNothingNeeded) return true;
      if (pins_.size() < 1024) pins_[from] = {Version(message.lineage_pin().above()), now};
      return true;
    default:
      return false;
  }
}

void SlabExchange::slab(const NodeKey& from, const wire::SlabData& data, Bytes payload, SteadyTime now) {
  SlabId id(data.slab());
  if (id.is_bytes()) {
    if (auto taken = join_.slab(from, id, data.gone(), payload); !taken) blame(from, taken.error().message, now);
    settle_join();
    return;
  }
  if (!fetch_.answered(from, id, data.gone(), now)) return;
  if (!data.gone()) {
    auto lost = lost_.find(id.index());
    if (lost == lost_.end()) return;
    auto digest = lost->second.find(Version(data.version()));
    if (digest == lost->second.end()) {
      // The giver is ahead of what is known here.
      fetch_.again(id, now);
    } else {
      givers_[id.index()] = from;
      rebuilder_.slab_arrived(id.index(), std::move(payload), digest->second);
    }
  }
  fetch_.fill(world_.neighbours(), now);
}

void SlabExchange::slab_lost(const RebuildEvents::LostSlab& lost, SteadyTime now) {
  auto giver = givers_.find(lost.slab);
  if (lost.refused && giver != givers_.end()) {
    blame(giver->second, "its tensor slab " + std::to_string(lost.slab) + " is not what the publisher signed: " + lost.reason,
          now);
  }
  if (giver != givers_.end()) givers_.erase(giver);
  auto& wanted = lost_[lost.slab];
  wanted.clear();
  for (const auto& [version, digest] : lost.wanted) wanted[version] = digest;
  if (!lost.expected) lost_since_.try_emplace(lost.slab, now);
  fetch_.want(SlabId::tensor(lost.slab));
}

std::vector<SlabExchange::Stranded> SlabExchange::stranded() const {
  std::vector<Stranded> out;
  for (const auto& [slab, since] : lost_since_) {
    auto lost = lost_.find(slab);
    if (lost != lost_.end()) out.push_back({slab, lost->second, since});
  }
  return out;
}

void SlabExchange::slab_mended(std::uint32_t slab) {
  lost_.erase(slab);
  lost_since_.erase(slab);
  fetch_.forget(SlabId::tensor(slab));
  auto giver = givers_.find(slab);
  if (giver == givers_.end()) return;
  origins_[slab] = giver->second;
  givers_.erase(giver);
}

std::optional<NodeKey> SlabExchange::giver_of(std::uint32_t slab) const {
  auto origin = origins_.find(slab);
  if (origin == origins_.end()) return std::nullopt;
  return origin->second;
}

// It may hold what this node counts on.
void SlabExchange::peer_up(const NodeKey& peer) {
  if (pinned_at_) say_pin(pinned_above().value(), {peer});
}

void SlabExchange::peer_lost(const NodeKey& peer) {
  server_.peer_lost(peer);
  fetch_.peer_lost(peer);
  join_.peer_lost(peer);
}

void SlabExchange::say_pin(std::uint64_t above, const std::vector<NodeKey>& to) {
  wire::LinkMessage message;
  message.mutable_lineage_pin()->set_channel(log_.verifier().channel().str());
  message.mutable_lineage_pin()->set_above(above);
  for (const NodeKey& peer : to) world_.send(peer, message, nullptr, false);
}

Version SlabExchange::pinned_above() const {
  if (join_.state() == Join::State::offered) return join_.offer()->version;
  return lineage_.empty() ? base() : lineage_start_;
}

// While this node copies or fetches a lineage, nobody drops what it still needs.
void SlabExchange::send_pin(SteadyTime now) {
  bool offered = join_.state() == Join::State::offered;
  if (!offered && lineage_.empty() && !(by_deltas_ && behind() > kFarBehind)) return;
  if (pinned_at_ && now - *pinned_at_ < kPinEvery) return;
  pinned_at_ = now;
  say_pin(pinned_above().value(), world_.links());
}

std::vector<Need> SlabExchange::pins(SteadyTime now) const {
  std::vector<Need> needs;
  for (const auto& [node, pin] : pins_) {
    if (now - pin.second < kPinLasts) needs.push_back({"joiner " + world_.name(node), pin.first});
  }
  return needs;
}

void SlabExchange::tick(SteadyTime now) {
  look_for_base(now);
  look_for_another_way(now);
  pass_over_others();
  send_pin(now);
  server_.tick();
  fetch_.tick(world_.neighbours(), now);
  std::erase_if(pins_, [&](const auto& pin) { return now - pin.second.second >= kPinLasts; });
}

}  // namespace p2pw
