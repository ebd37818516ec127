#include "daemon/core/certifier.h"

#include "chunker/certificate.h"

namespace p2pw {

Certifier::Certifier(SlotPair& slots, Pools pools, Events events)
    : slots_(slots), pools_(pools), events_(std::move(events)) {}

void Certifier::check(const CertifyRecord& certificate) {
  if (state_ != State::idle || done_ == certificate.seal) return;
  SlotPin pin = slots_.pin_active();
  auto staged = pin ? pin->staged() : std::nullopt;
  if (!staged || staged->seal() != certificate.seal) return;
  auto table = pin->table();
  pin_ = std::move(pin);
  certificate_ = certificate;
  byte_slabs_ = table->bytes.digests.size();
  tensor_slabs_ = table->tensors.size();
  hashes_.assign(byte_slabs_ + tensor_slabs_, Sha256{});
  next_ = 0;
  state_ = State::hashing;
  go_on();
}

bool Certifier::overtaken() const {
  auto active = slots_.active_version();
  return !active || active->seal() != certificate_->seal;
}

void Certifier::go_on() {
  WorkPool& pool = overtaken() ? pools_.hurry : pools_.idle;
  while (next_ < hashes_.size() && in_flight_ < pool.threads()) hash(next_++, pool);
  if (in_flight_ == 0) finish();
}

void Certifier::hash(std::size_t index, WorkPool& pool) {
  ++in_flight_;
  auto hash = std::make_shared<Sha256>();
  auto work = [pin = pin_, index, count = byte_slabs_, hash]() -> Status {
    thread_local Bytes buffer;
    auto table = pin->table();
    const auto& layout = *table->bytes.layout;
    if (index == 0) {
      *hash = sha256(layout.file_table());  // lies in no file
      return {};
    }
    P2PW_CHECK(index < count ? pin->read_bytes(layout.byte_slabs()[index], buffer)
                             : pin->read(static_cast<std::uint32_t>(index - count), buffer));
    *hash = sha256(buffer);
    return {};
  };
  pool.run(std::move(work), [this, weak = std::weak_ptr<int>(alive_), index, hash](const Status& read) {
    if (!weak.expired()) hashed(index, *hash, read);
  });
}

void Certifier::hashed(std::size_t index, const Sha256& hash, const Status& read) {
  // What cannot be read is wrong, too: its hash stays zero.
  if (read) hashes_[index] = hash;
  --in_flight_;
  go_on();
}

void Certifier::finish() {
  if (slab_root(byte_slabs_, tensor_slabs_, hashes_) == certificate_->slab_root) {
    auto list = std::make_shared<Bytes>();
    for (const Sha256& hash : hashes_) list->insert(list->end(), hash.view().begin(), hash.view().end());
    list_ = std::move(list);
    certified_ = certificate_->version;
    rest();
    events_.certified(certified_);
    return;
  }
  state_ = State::asking;
  asked_at_ = {};
}

// Nobody answers while the version goes out of date: then the next certificate finds it again.
void Certifier::tick(SteadyTime now) {
  if (state_ == State::hashing) return go_on();
  if (state_ != State::asking) return;
  if (overtaken()) return rest();
  if (now - asked_at_ < kAskEvery) return;
  asked_at_ = now;
  events_.ask(certificate_->version);
}

Status Certifier::list(Version version, ByteView bytes) {
  if (state_ != State::asking || version != certificate_->version) return {};
  std::vector<Sha256> right;
  for (std::size_t at = 0; at + Sha256::kSize <= bytes.size(); at += Sha256::kSize) {
    right.push_back(*Sha256::from(as_text(bytes.subspan(at, Sha256::kSize))));
  }
  if (right.size() != hashes_.size() || slab_root(byte_slabs_, tensor_slabs_, right) != certificate_->slab_root) {
    return fail(ErrorCode::integrity, "its list of slab hashes is not the one that was certified for version " +
                                          std::to_string(version.value()));
  }
  std::vector<SlabId> wrong;
  for (std::size_t i = 0; i < right.size(); ++i) {
    if (right[i] == hashes_[i]) continue;
    auto index = static_cast<std::uint32_t>(i < byte_slabs_ ? i : i - byte_slabs_);
    wrong.push_back(i < byte_slabs_ ? SlabId::bytes(index) : SlabId::tensor(index));
  }
  give_up(wrong);
  return {};
}

void Certifier::give_up(const std::vector<SlabId>& wrong) {
  // The other slot was made from the same slabs.
  for (SlotName name : {SlotName::a, SlotName::b}) {
    for (SlabId slab : wrong) {
      if (!slab.is_bytes()) slots_.slot(name)->distrust(slab.index());
    }
  }
  Version version = certificate_->version;
  rest();
  events_.failed(version, wrong);
}

void Certifier::rest() {
  done_ = certificate_->seal;
  state_ = State::idle;
  certificate_.reset();
  hashes_.clear();
  pin_.reset();
}

std::shared_ptr<const Bytes> Certifier::certified_list(Version version) const {
  return version == certified_ ? list_ : nullptr;
}

}  // namespace p2pw
