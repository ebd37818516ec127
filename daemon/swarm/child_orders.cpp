#include "daemon/swarm/child_orders.h"

#include <algorithm>

#include "protocol/swarm_child.pb.h"

namespace p2pw {
namespace {

template <class Id>
std::string bytes_of(const Id& id) {
  return std::string(id.text());
}

}  // namespace

void ChildOrders::add(std::uint32_t number, const BundleId& id, std::shared_ptr<BundleFile> file, SwarmGroups group) {
  orders_.emplace_back(Add{number, id, file, group});
  for (std::size_t first = 0; first < file->chunk_count(); first += kRootsAtOnce) orders_.emplace_back(Roots{file, first});
}

void ChildOrders::offer(std::uint32_t number, ChunkIndex chunk) {
  Offer* last = orders_.empty() ? nullptr : std::get_if<Offer>(&orders_.back());
  if (last == nullptr || last->number != number || last->chunks.size() >= kChunksAtOnce) {
    last = &std::get<Offer>(orders_.emplace_back(Offer{number, {}}));
  }
  last->chunks.push_back(chunk.value());
}

void ChildOrders::members(const std::vector<SwarmPeer>& members) {
  auto at = members.begin();
  do {
    const auto count = std::min<std::ptrdiff_t>(kPeersAtOnce, members.end() - at);
    orders_.emplace_back(Members{{at, at + count}, at + count != members.end()});
    at += count;
  } while (at != members.end());
}

PacketState ChildOrders::send(int socket) {
  while (!orders_.empty()) {
    wire::SwarmOrder message;
    std::visit([&](const auto& order) { write(order, message); }, orders_.front());
    const Add* add = std::get_if<Add>(&orders_.front());
    const PacketState state =
        send_packet(socket, message.SerializeAsString(), add == nullptr ? -1 : add->file->descriptor());
    if (state != PacketState::done) return state;
    orders_.pop_front();
  }
  return PacketState::done;
}

void ChildOrders::write(const Start& start, wire::SwarmOrder& message) {
  wire::SwarmStart& out = *message.mutable_start();
  out.set_self(bytes_of(start.options.self));
  out.set_address(start.options.address);
  out.set_port(start.options.port);
  out.set_upload_limit(start.options.upload_limit);
  out.set_download_limit(start.options.download_limit);
  out.set_stall_ms(static_cast<std::uint32_t>(start.options.stall.count()));
  out.set_disk_threads(static_cast<std::uint32_t>(start.options.disk_threads));
}

void ChildOrders::write(const Add& add, wire::SwarmOrder& message) {
  const BundleRecord& record = add.file->record();
  wire::SwarmAdd& out = *message.mutable_add();
  out.set_number(add.number);
  out.set_bundle(bytes_of(add.id));
  out.set_used_bytes(record.used_bytes);
  out.set_chunk_bytes(record.chunk_bytes);
  out.set_pieces_root(bytes_of(record.pieces_root));
  std::string have((add.file->chunk_count() + 7) / 8, '\0');
  for (std::uint32_t i = 0; i < add.file->chunk_count(); ++i) {
    if (add.file->has(ChunkIndex(i))) have[i / 8] = static_cast<char>(have[i / 8] | 1 << i % 8);
  }
  out.set_have(std::move(have));
  out.set_group(add.group);
}

void ChildOrders::write(const Roots& roots, wire::SwarmOrder& message) {
  const std::vector<ChunkRoot>& all = roots.file->roots();
  std::string& out = *message.mutable_roots()->mutable_roots();
  const std::size_t end = std::min(all.size(), roots.first + kRootsAtOnce);
  out.reserve((end - roots.first) * ChunkRoot::kSize);
  for (std::size_t i = roots.first; i < end; ++i) out += all[i].text();
}

void ChildOrders::write(const Offer& offer, wire::SwarmOrder& message) {
  wire::SwarmOffer& out = *message.mutable_offer();
  out.set_number(offer.number);
  for (std::uint32_t chunk : offer.chunks) out.add_chunks(chunk);
}

void ChildOrders::write(const Remove& remove, wire::SwarmOrder& message) {
  message.mutable_remove()->set_number(remove.number);
}

void ChildOrders::write(const Members& members, wire::SwarmOrder& message) {
  wire::SwarmMembers& out = *message.mutable_members();
  out.set_more(members.more);
  for (const SwarmPeer& peer : members.peers) {
    wire::SwarmMembers::Peer& entry = *out.add_peers();
    entry.set_node(bytes_of(peer.key));
    entry.set_address(peer.address);
    entry.set_port(peer.port);
    entry.set_groups(peer.groups);
  }
}

void ChildOrders::write(const Drop& drop, wire::SwarmOrder& message) {
  message.mutable_drop()->set_node(bytes_of(drop.member));
}

}  // namespace p2pw
