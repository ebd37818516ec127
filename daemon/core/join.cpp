#include "daemon/core/join.h"

#include "protocol/limits.h"

namespace p2pw {

std::string_view name_of(Join::State state) {
  static constexpr std::string_view kNames[] = {"idle", "asking", "fetching", "offered", "nobody"};
  return kNames[static_cast<std::size_t>(state)];
}

Join::Join(const ChannelLog& log, std::shared_ptr<ByteStore> store, Send send)
    : log_(log), store_(std::move(store)), send_(std::move(send)) {}

void Join::ask(const NodeKey& peer) {
  wire::LinkMessage message;
  message.mutable_table_wanted()->set_channel(log_.verifier().channel().str());
  told_.insert(peer);
  asked_.insert(peer);
  send_(peer, message);
}

void Join::begin(const std::vector<NodeKey>& neighbours, SteadyTime now) {
  state_ = State::asking;
  since_ = now;
  told_.clear();
  asked_.clear();
  answers_.clear();
  ahead_ = false;
  offer_.reset();
  for (const NodeKey& peer : neighbours) ask(peer);
}

Status Join::table(const NodeKey& from, const wire::Table& table, ByteView digests) {
  if (state_ != State::asking || asked_.erase(from) == 0 || table.version() == 0) return {};
  const Run* run = log_.version(Version(table.version()));
  auto seal = SealHash::from(table.seal());
  // What is not known here yet is nobody's fault: the records are on their way, the question will be put again.
  if (run == nullptr || run->seal() == nullptr) {
    ahead_ = true;
    return {};
  }
  const SealRecord& sealed = *run->seal();
  std::size_t count = std::size_t(sealed.byte_slabs) + sealed.tensor_slabs;
  if (!seal || *seal != run->seal_hash() || table.byte_slabs() != sealed.byte_slabs ||
      digests.size() != count * Digest::kSize || count > 2 * limits::kMaxSlabs) {
    return fail(ErrorCode::malformed, "its table of version " + std::to_string(table.version()) +
                                          " has not the shape that the seal states");
  }
  Answer answer;
  answer.version = run->version();
  answer.keeps_above = Version(table.keeps_above());
  answer.seal = *seal;
  answer.table_hash = sealed.table_hash;
  for (std::size_t i = 0; i < count; ++i) {
    Digest digest = *Digest::from(as_text(digests.subspan(i * Digest::kSize, Digest::kSize)));
    (i < sealed.byte_slabs ? answer.bytes : answer.tensors).push_back(digest);
  }
  if (slab_table_hash(run->open().layout_hash, answer.bytes, answer.tensors) != sealed.table_hash) {
    return fail(ErrorCode::integrity, "its table of version " + std::to_string(table.version()) +
                                          " does not hash to what the seal says");
  }
  answers_.insert_or_assign(from, std::move(answer));
  return {};
}

// The newest; of several the one whose bundles reach back furthest.
void Join::choose(SteadyTime now) {
  const Answer* best = nullptr;
  for (const auto& [peer, answer] : answers_) {
    bool better = best == nullptr || answer.version > best->version ||
                  (answer.version == best->version && answer.keeps_above < best->keeps_above);
    if (!better) continue;
    best = &answer;
    giver_ = peer;
  }
  if (best == nullptr) {
    state_ = ahead_ ? State::idle : State::nobody;
    return;
  }
  missing_.clear();
  for (std::uint32_t i = 0; i < best->bytes.size(); ++i) {
    if (!store_->get(best->bytes[i])) missing_.insert(i);
  }
  state_ = State::fetching;
  since_ = now;
  ask_bytes();
}

void Join::ask_bytes() {
  if (missing_.empty()) return complete();
  wire::LinkMessage message;
  message.mutable_slabs_wanted()->set_channel(log_.verifier().channel().str());
  message.mutable_slabs_wanted()->set_version(answers_.at(giver_).version.value());
  std::size_t asked = 0;
  for (std::uint32_t index : missing_) {
    if (++asked > kAtOnce) break;
    message.mutable_slabs_wanted()->add_slabs(SlabId::bytes(index).raw());
  }
  send_(giver_, message);
}

Status Join::slab(const NodeKey& from, SlabId slab, bool gone, ByteView bytes) {
  if (state_ != State::fetching || from != giver_ || !missing_.contains(slab.index())) return {};
  const Digest& digest = answers_.at(giver_).bytes[slab.index()];
  if (gone || codec::digest_of(bytes) != digest) {
    // Most likely it has gone on to another version in the meantime.
    answers_.erase(giver_);
    state_ = State::asking;
    ask(from);
    return {};
  }
  P2PW_CHECK(store_->put(digest, bytes));
  missing_.erase(slab.index());
  if (missing_.empty() || missing_.size() % kAtOnce == 0) ask_bytes();
  return {};
}

void Join::complete() {
  const Answer& answer = answers_.at(giver_);
  auto table = std::make_shared<CheckpointTable>();
  auto bytes = load_byte_table(*store_, answer.bytes);
  if (bytes) {
    table->bytes = std::move(*bytes);
    table->tensors = answer.tensors;
  }
  if (!bytes || table->bytes.layout->tensor_slabs().size() != answer.tensors.size() ||
      table->hash() != answer.table_hash) {
    answers_.erase(giver_);
    state_ = State::asking;
    return;
  }
  offer_ = Offer{std::move(table), answer.version, answer.seal, answer.keeps_above};
  state_ = State::offered;
}

void Join::peer_lost(const NodeKey& peer) {
  asked_.erase(peer);
  answers_.erase(peer);
  if (state_ == State::fetching && peer == giver_) state_ = State::asking;
}

void Join::tick(const std::vector<NodeKey>& neighbours, bool alone, SteadyTime now) {
  if (state_ == State::asking) {
    // Records may come from afar before the links of the region stand.
    for (const NodeKey& peer : neighbours) {
      if (!told_.contains(peer)) ask(peer);
    }
    bool heard_all = asked_.empty() && !told_.empty();
    bool nobody_comes = alone && told_.empty() && now - since_ >= kAlone;
    if (heard_all || nobody_comes || now - since_ >= kAnswers) choose(now);
  } else if (state_ == State::fetching && now - since_ >= kFetch) {
    answers_.erase(giver_);
    state_ = State::asking;
  }
}

}  // namespace p2pw
