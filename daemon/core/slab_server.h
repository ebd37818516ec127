// Gives slabs of this node's active slot to its neighbours: to joiners, and to nodes that have a damaged one. Read on the
// pool, a few at a time and one peer after the other, and sent on the lane of bulk, so that chunks of a new version are
// not kept waiting for long. Whoever asks for too much is told `gone` and asks again later, or elsewhere.
//
// Threads: control thread only; the disk is read on the pool.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>

#include "chunker/slot_pair.h"
#include "daemon/core/work_pool.h"
#include "daemon/link/link_hub.h"

namespace p2pw {

class SlabServer {
 public:
  static constexpr std::size_t kQueued = 64;  // slabs for each peer
  static constexpr unsigned kReading = 2;     // slabs in memory, all peers together
  // False: the lane is full, try later. `bulk` false: a small answer, on the control connection.
  using Send = std::function<bool(const NodeKey& to, const wire::LinkMessage& message, SharedBytes payload, bool bulk)>;

  SlabServer(Channel channel, SlotPair& slots, WorkPool& pool, Send send);

  void wanted(const NodeKey& from, const wire::SlabsWanted& wanted);
  // What the active slot holds; version 0 when there is none.
  void table_wanted(const NodeKey& from, Version keeps_above);
  void peer_lost(const NodeKey& peer) { queues_.erase(peer); }
  void tick();
  std::uint64_t slabs_sent() const { return slabs_sent_; }

 private:
  struct Ready {
    NodeKey to;
    wire::LinkMessage message;
    SharedBytes payload;
  };
  void read_more();
  void have_read(const NodeKey& to, SlabId slab, Version version, std::shared_ptr<Bytes> bytes, const Status& read);
  void refuse(const NodeKey& to, SlabId slab);
  void send_ready();

  Channel channel_;
  SlotPair& slots_;
  WorkPool& pool_;
  Send send_;
  std::map<NodeKey, std::deque<SlabId>> queues_;
  NodeKey served_last_;
  std::deque<Ready> ready_;
  unsigned reading_ = 0;
  std::uint64_t slabs_sent_ = 0;
  std::shared_ptr<int> alive_ = std::make_shared<int>();
};

}  // namespace p2pw
