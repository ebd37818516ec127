#include "daemon/core/slab_server.h"

namespace p2pw {

SlabServer::SlabServer(Channel channel, SlotPair& slots, WorkPool& pool, Send send)
    : channel_(std::move(channel)), slots_(slots), pool_(pool), send_(std::move(send)) {}

void SlabServer::refuse(const NodeKey& to, SlabId slab) {
  wire::LinkMessage message;
  message.mutable_slab()->set_channel(channel_.str());
  message.mutable_slab()->set_slab(slab.raw());
  message.mutable_slab()->set_gone(true);
  send_(to, message, nullptr, false);
}

void SlabServer::wanted(const NodeKey& from, const wire::SlabsWanted& wanted) {
  auto& queue = queues_[from];
  for (std::uint32_t raw : wanted.slabs()) {
    if (queue.size() < kQueued) {
      queue.push_back(SlabId(raw));
    } else {
      refuse(from, SlabId(raw));
    }
  }
  read_more();
}

void SlabServer::table_wanted(const NodeKey& from, Version keeps_above) {
  wire::LinkMessage message;
  auto* out = message.mutable_table();
  out->set_channel(channel_.str());
  auto payload = std::make_shared<Bytes>();
  auto active = slots_.active();
  auto staged = active ? active->staged() : std::nullopt;
  if (auto table = staged ? active->table() : nullptr) {
    out->set_version(staged->version().value());
    out->set_seal(std::string(staged->seal().text()));
    out->set_byte_slabs(static_cast<std::uint32_t>(table->bytes.digests.size()));
    out->set_keeps_above(keeps_above.value());
    for (const auto* digests : {&table->bytes.digests, &table->tensors}) {
      for (const Digest& digest : *digests) payload->insert(payload->end(), digest.view().begin(), digest.view().end());
    }
  }
  send_(from, message, payload, false);
}

void SlabServer::read_more() {
  while (reading_ + ready_.size() < kReading) {
    // The next peer after the one that was served last. A queue stays as long as its peer's link does.
    auto next = queues_.upper_bound(served_last_);
    for (std::size_t looked = 0; looked < queues_.size(); ++looked, ++next) {
      if (next == queues_.end()) next = queues_.begin();
      if (!next->second.empty()) break;
    }
    if (next == queues_.end()) next = queues_.begin();
    if (next == queues_.end() || next->second.empty()) return;
    NodeKey to = served_last_ = next->first;
    SlabId slab = next->second.front();
    next->second.pop_front();
    SlotPin pin = slots_.pin_active();
    auto staged = pin ? pin->staged() : std::nullopt;
    if (!staged || (!slab.is_bytes() && !pin->known_digest(slab.index()))) {
      refuse(to, slab);
      continue;
    }
    ++reading_;
    auto bytes = std::make_shared<Bytes>();
    auto read = [pin, slab, bytes, version = staged->version()]() -> Status {
      if (!slab.is_bytes()) return pin->read(slab.index(), *bytes);
      auto table = pin->table();
      if (table == nullptr || slab.index() >= table->bytes.digests.size()) {
        return fail(ErrorCode::not_found, "no such byte slab");
      }
      P2PW_TRY(*bytes, pin->byte_store().get(table->bytes.digests[slab.index()]));
      return {};
    };
    pool_.run(std::move(read), [this, weak = std::weak_ptr<int>(alive_), to, slab, version = staged->version(),
                                bytes](const Status& status) {
      if (weak.expired()) return;
      --reading_;
      have_read(to, slab, version, bytes, status);
      read_more();
    });
  }
}

void SlabServer::have_read(const NodeKey& to, SlabId slab, Version version, std::shared_ptr<Bytes> bytes,
                           const Status& read) {
  if (!read) return refuse(to, slab);
  Ready ready{to, {}, std::move(bytes)};
  auto* out = ready.message.mutable_slab();
  out->set_channel(channel_.str());
  out->set_slab(slab.raw());
  out->set_version(version.value());
  ready_.push_back(std::move(ready));
  send_ready();
}

void SlabServer::send_ready() {
  while (!ready_.empty()) {
    Ready& first = ready_.front();
    bool linked = queues_.contains(first.to);
    if (linked && !send_(first.to, first.message, first.payload, true)) return;
    ++slabs_sent_;
    ready_.pop_front();
  }
}

void SlabServer::tick() {
  send_ready();
  read_more();
}

}  // namespace p2pw
