// What peers say, and what this node says to them: records, metas, chunks, states.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "daemon/core/node.h"
#include "protocol/limits.h"

namespace p2pw {
namespace {

constexpr std::chrono::hours kSeenLately{1};  // a node that is away for longer copies slabs, or takes an anchor

// A peer that has more than this to be told at once hears some of it twice.
constexpr std::size_t kTold = 8192;
constexpr std::chrono::seconds kSwarmAgain{5};

// From the sender's clock to ours. Before the first heartbeats have been echoed there is no offset: then the times are
// dropped; they come again.
void to_local_clock(wire::NodeState& state, const LinkStats& stats) {
  if (stats.round_trip.count() == 0) return state.clear_times();
  for (wire::StageTime& time : *state.mutable_times()) {
    time.set_at_us(time.at_us() - static_cast<std::uint64_t>(stats.clock_offset.count()));  // modulo 2^64 both ways
  }
}

}  // namespace

RecentSet<Sha256>& Node::told(const NodeKey& peer) { return told_.try_emplace(peer, kTold).first->second; }
RecentSet<BundleId>& Node::metas_told(const NodeKey& peer) { return metas_told_.try_emplace(peer, kTold).first->second; }

void Node::link_up(const NodeKey& peer, const wire::Hello& hello) {
  told_.erase(peer);
  metas_told_.erase(peer);
  roster_->link_up(peer, hello, steady_now());
  spdlog::debug("link up with {} in {}", peer.short_hex(), hello.region());
  want_all_records(peer);
  if (const auto* part = keeper_->part_for(peer)) {
    wire::LinkMessage message;
    *message.mutable_secret_handover() = *part;
    hub_->send(peer, message);
  }
  // Whoever is new here hears how far everybody is.
  send_states(true);
  spread_->peer_up(peer);
  for (auto& [channel, follower] : followers_) follower->peer_up(peer);
}

void Node::link_down(const NodeKey& peer, const Error& reason) {
  spdlog::debug("link down with {}: {}", peer.short_hex(), reason.message);
  told_.erase(peer);
  metas_told_.erase(peer);
  roster_->link_down(peer, steady_now());
  spread_->peer_lost(peer);
  for (auto& [channel, follower] : followers_) follower->peer_lost(peer);
}

void Node::link_message(const NodeKey& peer, const wire::LinkMessage& message, Bytes payload) {
  const Member* member = roster_->find(peer);
  switch (message.body_case()) {
    case wire::LinkMessage::kChunk:
      return chunk_message(peer, message.chunk(), std::move(payload));
    case wire::LinkMessage::kMembers:
      return roster_->members_message(peer, message.members(), steady_now());
    case wire::LinkMessage::kGoodbye:
      return roster_->said_goodbye(peer, steady_now());
    case wire::LinkMessage::kStates:
      if (member) states_message(*member, message.states());
      return;
    case wire::LinkMessage::kSecretHandover:
      return handover_message(peer, message.secret_handover());
    case wire::LinkMessage::kRecords:
      return records_message(peer, message.records());
    case wire::LinkMessage::kRecordsWanted:
      return records_wanted(peer, message.records_wanted());
    case wire::LinkMessage::kMetaWanted:
      return meta_wanted(peer, message.meta_wanted());
    case wire::LinkMessage::kMeta: {
      auto bundle = BundleId::from(message.meta().bundle());
      if (!bundle) return;
      metas_told(peer).insert(*bundle);
      if (!member || member->trainer || member->region != self().region) foreign_metas_.insert(*bundle);
      Follower* follower = follower_of(*bundle);
      if (!follower) return early_metas_.add(*bundle, std::move(payload));
      if (auto taken = follower->take_offered_meta(*bundle, std::move(payload)); !taken.ok()) {
        spdlog::warn("meta from {} refused: {}", peer.short_hex(), taken.error().message);
      }
      return;
    }
    default:
      if (!member || exchange_message(*member, message, payload)) return;
      if (staged_poll_->message(*member, message, steady_now())) return;
      spread_->message(*member, message);
  }
}

// Slabs go between nodes of one region only; a pin concerns whoever keeps bundles.
bool Node::exchange_message(const Member& from, const wire::LinkMessage& message, Bytes& payload) {
  std::string name;
  switch (message.body_case()) {
    case wire::LinkMessage::kTableWanted: name = message.table_wanted().channel(); break;
    case wire::LinkMessage::kTable: name = message.table().channel(); break;
    case wire::LinkMessage::kSlabsWanted: name = message.slabs_wanted().channel(); break;
    case wire::LinkMessage::kSlab: name = message.slab().channel(); break;
    case wire::LinkMessage::kHashesWanted: name = message.hashes_wanted().channel(); break;
    case wire::LinkMessage::kHashes: name = message.hashes().channel(); break;
    case wire::LinkMessage::kLineagePin: name = message.lineage_pin().channel(); break;
    default: return false;
  }
  auto channel = Channel::parse(name);
  Follower* follower = channel.ok() ? this->follower(*channel) : nullptr;
  bool near = from.region == self().region && !from.trainer && !self().trainer;
  bool any = message.has_lineage_pin() || message.has_hashes_wanted() || message.has_hashes();
  if (follower && (near || any)) follower->exchange_message(from.key, message, payload);
  return true;
}

bool Node::send_to(const NodeKey& peer, const wire::LinkMessage& message, SharedBytes payload, bool bulk) {
  if (bulk) return hub_->send_bulk(peer, message, std::move(payload));
  hub_->send(peer, message, std::move(payload));
  return true;
}

// The trainer hears of everybody, a bootstrap daemon of its region, others of themselves.
std::vector<Need> Node::seen_lately(const Channel& channel) const {
  std::vector<Need> needs;
  std::uint64_t since = to_millis(wall_now() - kSeenLately);
  for (const wire::NodeState& state : states_.all()) {
    bool here = self().trainer || state.region() == self().region.str();
    if (!here || state.channel() != channel.str() || state.version_active() == 0 || state.at_ms() < since) continue;
    needs.push_back({"node " + state.name(), Version(state.version_active())});
  }
  if (auto mirror = mirrors_.find(channel); mirror != mirrors_.end()) {
    if (auto need = mirror->second->need()) needs.push_back(std::move(*need));
  }
  return needs;
}

// Only bootstrap daemons and trainers speak for others.
void Node::states_message(const Member& peer, const wire::NodeStates& message) {
  const NodeKey key = peer.key;
  const bool for_others = peer.bootstrap || peer.trainer;
  bool news = false;
  const auto stats = hub_->stats(key);
  for (wire::NodeState state : message.states()) {
    if (!for_others && state.node() != key.text()) continue;
    to_local_clock(state, stats ? *stats : LinkStats());
    news |= states_.hear(state, roster_->members());
  }
  if (news) states_news();
}

// Each honest peer sends a record once. Whoever keeps our signature checks busy with others has to go.
void Node::records_message(const NodeKey& peer, const wire::Records& message) {
  for (const std::string& envelope : message.envelopes()) {
    bool added = false;
    for (auto& [channel, follower] : followers_) {
      auto taken = follower->take_record(as_bytes(envelope), &peer);
      if (taken.ok()) {
        told(peer).insert(taken->id);
        added = taken->added;
        break;
      }
      spdlog::debug("record from {} refused: {}", peer.short_hex(), taken.error().message);
    }
    if (added || useless_records_.spend(peer, steady_now())) continue;
    events_.add({}, "flood", {}, "node " + peer.hex() + " keeps sending records that are no news", peer.hex());
    hub_->drop(peer, fail(ErrorCode::limit, "node " + peer.short_hex() + " keeps sending records that are no news"));
    return;
  }
}

void Node::chunk_message(const NodeKey& peer, const wire::Chunk& chunk, Bytes payload) {
  auto bundle = BundleId::from(chunk.bundle());
  if (!bundle) return;
  ChunkIndex index(chunk.index());
  Epoch epoch(chunk.epoch());
  if (!spread_->knows(*bundle)) {
    if (unwanted(*bundle)) return;
    early_.add(*bundle, {peer, index, epoch, std::move(payload)});
    return;
  }
  if (!spread_->take_link_chunk(peer, *bundle, index, epoch)) return;
  if (Follower* follower = follower_of(*bundle)) follower->store_chunk(*bundle, index, std::move(payload), &peer, epoch);
}

void Node::chunk_stored(const BundleId& bundle, ChunkIndex chunk, const NodeKey* from, Epoch epoch, SharedBytes bytes) {
  if (from) {
    if (swarm_) fresh_.add(bundle, chunk, std::move(bytes), steady_now());
    spread_->link_chunk_stored(*from, bundle, chunk, epoch);
  } else {
    spread_->swarm_chunk(bundle, chunk);
  }
  if (!swarm_) return spread_->handed_on(bundle, chunk);
  swarm_->offer(bundle, chunk);
}

void Node::chunk_refused(const BundleId& bundle, ChunkIndex chunk, const NodeKey& from, const Error& error) {
  spread_->link_chunk_bad(from, bundle, chunk);
  if (error.code != ErrorCode::integrity) return;
  // Its sender checked it before passing it on: this is no accident of the wire, which TLS would have found.
  note(bundle, "ban", from.hex() + ": " + error.message);
  hub_->ban(from, "it sent a chunk that is not what the publisher signed");
}

void Node::swarm_chunk_arrived(const BundleId& bundle, ChunkIndex chunk) {
  spread_->swarm_chunk(bundle, chunk);
  if (Follower* follower = follower_of(bundle)) follower->swarm_chunk(bundle, chunk);
}

void Node::swarm_peer_blocked(const BundleId& bundle, const std::string& address, const std::string& reason) {
  note(bundle, "blocked", address + ": " + reason);
  spdlog::warn("swarm peer {} blocked for bundle {}: {}", address, bundle.short_hex(), reason);
}

void Node::swarm_failed(const BundleId& bundle, const Error& error) {
  // libtorrent gives a torrent up for good when its disk fails: it is made anew, once there may be room again. Until then
  // every chunk that is under way fails as well, which is no news.
  if (!swarm_again_.emplace(bundle, steady_now() + kSwarmAgain).second) return;
  spdlog::error("swarm of bundle {}: {}", bundle.short_hex(), error.message);
  note(bundle, "swarm-failed", error.message);
  Follower* follower = follower_of(bundle);
  if (follower && error.code == ErrorCode::no_space) {
    follower->no_room(fail(error.code, error.message + "; make room, the work goes on then"));
  }
}

void Node::add_failed_bundles() {
  for (auto it = swarm_again_.begin(); it != swarm_again_.end();) {
    if (it->second > steady_now()) {
      ++it;
      continue;
    }
    Follower* follower = follower_of(it->first);
    if (auto stored = follower ? follower->bundles().find(it->first) : nullptr) {
      swarm_->remove(stored->id);
      swarm_->add(stored->id, stored->record, stored->meta->chunk_roots, stored->file, swarm_group(follower->channel()));
    }
    it = swarm_again_.erase(it);
  }
}

void Node::swarm_ended(const std::string& why) {
  spdlog::error("the swarm's process is gone and will be started again: {}", why);
  events_.add({}, "swarm-ended", {}, why);
}

void Node::bundle_spoilt(const BundleId& bundle) {
  if (swarm_) swarm_->distrust("bundle " + bundle.short_hex() + " holds other bytes than were checked");
}

std::chrono::microseconds Node::round_trip(const NodeKey& peer) const {
  auto stats = hub_->stats(peer);
  return stats ? stats->round_trip : std::chrono::microseconds(0);
}

// A receiver bans whoever sends it a wrong chunk, and the swarm's process can write into bundle files.
Result<SharedBytes> Node::bytes_to_send(const StoredBundle& stored, ChunkIndex chunk) const {
  if (SharedBytes fresh = fresh_.find(stored.id, chunk)) return fresh;
  P2PW_TRY(Bytes bytes, swarm_ ? stored.file->checked_chunk(chunk) : stored.file->chunk(chunk));
  return std::make_shared<const Bytes>(std::move(bytes));
}

bool Node::send_chunk(const NodeKey& peer, const BundleId& bundle, ChunkIndex chunk, Epoch epoch) {
  Follower* follower = follower_of(bundle);
  auto stored = follower ? follower->bundles().find(bundle) : nullptr;
  if (!stored) return false;
  auto bytes = bytes_to_send(*stored, chunk);
  if (!bytes.ok()) {
    spdlog::error("bundle {}: {}", bundle.short_hex(), bytes.error().message);
    if (bytes.error().code != ErrorCode::integrity) return false;
    io_.post([this, weak = std::weak_ptr<int>(alive_), bundle, error = bytes.error()] {
      Follower* owner = weak.expired() ? nullptr : follower_of(bundle);
      if (owner) owner->chunk_damaged(bundle, error);
    });
    return false;
  }
  wire::Chunk header;
  header.set_bundle(std::string(bundle.text()));
  header.set_index(chunk.value());
  header.set_epoch(epoch.value());
  SharedBytes payload = std::move(*bytes);
  if (!hub_->send_chunk(peer, header, payload)) return false;
  if (const Member* member = roster_->find(peer)) {
    Sent& sent = sent_[{follower->channel(), stored->record.version, member->region}];
    sent.payload += payload->size();
  }
  return true;
}

// Everything a peer needs to understand a bundle; what it has from us already, or gave us, is left out.
void Node::introduce(const NodeKey& peer, const BundleId& bundle) {
  Follower* follower = follower_of(bundle);
  auto stored = follower ? follower->bundles().find(bundle) : nullptr;
  if (!stored) return;
  auto records = follower->introduction(bundle);
  std::erase_if(records, [&](const VerifiedRecord* record) { return told(peer).contains(record->id()); });
  send_records(peer, records);
  if (metas_told(peer).insert(bundle)) send_meta(peer, *stored);
}

void Node::send_meta(const NodeKey& peer, const StoredBundle& bundle) {
  wire::LinkMessage message;
  message.mutable_meta()->set_bundle(std::string(bundle.id.text()));
  hub_->send(peer, message, std::make_shared<const Bytes>(bundle.encoded_meta));
}

void Node::meta_wanted(const NodeKey& peer, const wire::MetaWanted& wanted) {
  auto bundle = BundleId::from(wanted.bundle());
  Follower* follower = bundle ? follower_of(*bundle) : nullptr;
  auto stored = follower ? follower->bundles().find(*bundle) : nullptr;
  if (stored) send_meta(peer, *stored);
}

void Node::want_meta(const BundleId& bundle, bool far) {
  wire::LinkMessage message;
  message.mutable_meta_wanted()->set_bundle(std::string(bundle.text()));
  auto peers = roster_->regional_links();
  if (far || peers.empty()) peers = hub_->links();
  for (const NodeKey& peer : peers) hub_->send(peer, message);
}

// A record goes only to who follows its channel, and enters a region once: its maker and whoever hears it from another
// region hand it to every node of their own; the maker also to one entry node of each other region. A seal is handed to
// the other regions by every entry node, so that a trainer that dies while sending it leaves no region without.
void Node::forward_record(const VerifiedRecord& record, const NodeKey* from) {
  wire::LinkMessage message;
  message.mutable_records()->add_envelopes(std::string(as_text(record.envelope())));
  const Member* sender = from ? roster_->find(*from) : nullptr;
  bool foreign = !sender || sender->trainer || sender->region != self().region;
  std::vector<NodeKey> to;
  if (foreign) to = roster_->regional_links(&record.channel());
  if (!from || (foreign && record.as<SealRecord>())) {
    for (const NodeKey& key : roster_->entry_nodes(record.channel())) to.push_back(key);
  }
  for (const NodeKey& peer : to) {
    if (from && peer == *from) continue;
    if (!told(peer).insert(record.id())) continue;
    hub_->send(peer, message);
  }
}

void Node::bundle_opened(const BundleFacts& facts, const StoredBundle& bundle, bool fresh) {
  channel_of_[facts.id] = facts.place.channel;
  ChunkSet held(facts.chunks);
  for (std::uint32_t i = 0; i < facts.chunks; ++i) {
    if (bundle.file->has(ChunkIndex(i))) held.add(ChunkIndex(i));
  }
  // A meta that came from another region is handed on: this region's nodes need it before they can join the swarm.
  if (foreign_metas_.erase(bundle.id)) {
    for (const NodeKey& peer : roster_->regional_links(&facts.place.channel)) introduce(peer, bundle.id);
  }
  if (swarm_) swarm_->add(bundle.id, bundle.record, bundle.meta->chunk_roots, bundle.file, swarm_group(facts.place.channel));
  spread_->add(facts, held, fresh);
  for (EarlyChunk& chunk : early_.take(bundle.id)) {
    wire::Chunk header;
    header.set_bundle(std::string(bundle.id.text()));
    header.set_index(chunk.chunk.value());
    header.set_epoch(chunk.epoch.value());
    chunk_message(chunk.from, header, std::move(chunk.payload));
  }
}

void Node::bundle_closed(const BundleId& bundle) {
  spread_->forget(bundle);
  if (swarm_) swarm_->remove(bundle);
  channel_of_.erase(bundle);
  foreign_metas_.erase(bundle);
}

void Node::want_records(const Channel& channel, const NodeKey* from) {
  Follower* follower = this->follower(channel);
  if (!follower) return;
  wire::LinkMessage message;
  follower->fill_wanted(*message.mutable_records_wanted());
  auto peers = from ? std::vector<NodeKey>{*from} : hub_->links();
  for (const NodeKey& peer : peers) {
    const Member* member = roster_->find(peer);
    if (!member || member->follows.has(channel)) hub_->send(peer, message);
  }
}

void Node::want_all_records(const NodeKey& peer) {
  for (auto& [channel, follower] : followers_) want_records(channel, &peer);
}

void Node::records_wanted(const NodeKey& peer, const wire::RecordsWanted& wanted) {
  auto channel = Channel::parse(wanted.channel());
  Follower* follower = channel.ok() ? this->follower(*channel) : nullptr;
  // Each channel has its own share: a peer asks for all of them when it connects.
  if (!follower || !record_requests_.spend(peer, steady_now(), 1.0 / static_cast<double>(followers_.size()))) return;
  send_records(peer, follower->missing_for(wanted));
}

void Node::send_records(const NodeKey& peer, const std::vector<const VerifiedRecord*>& records) {
  wire::LinkMessage message;
  std::size_t bytes = 0;
  for (const VerifiedRecord* record : records) {
    const Bytes& envelope = record->envelope();
    if (bytes + envelope.size() > limits::kMaxMessageBytes / 2) {
      hub_->send(peer, message);
      message.Clear();
      bytes = 0;
    }
    bytes += envelope.size() + 8;
    message.mutable_records()->add_envelopes(std::string(as_text(envelope)));
    told(peer).insert(record->id());
  }
  if (message.has_records()) hub_->send(peer, message);
}

bool Node::unwanted(const BundleId& bundle) const {
  const Follower* follower = follower_of(bundle);
  return follower != nullptr && follower->unwanted(bundle);
}

bool Node::alone(const Channel& channel) const {
  return std::ranges::none_of(roster_->members(), [&](const Member& m) {
    return m.key != self().key && !m.trainer && m.region == self().region && m.follows.has(channel);
  });
}

}  // namespace p2pw
