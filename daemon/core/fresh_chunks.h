// Chunks that came over a link and were hashed a moment ago, in memory: what is passed on at once (cut-through) is
// neither read nor hashed again. A chunk that is read from its bundle file later is hashed before it leaves: the swarm's
// process may write there, too. Bounded by bytes and by age. Control thread only.
#pragma once

#include <chrono>
#include <deque>
#include <memory>

#include "protocol/ids.h"

namespace p2pw {

class FreshChunks {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kMaxBytes = 16u << 20;
  static constexpr std::chrono::seconds kMaxAge{2};

  void add(const BundleId& bundle, ChunkIndex chunk, std::shared_ptr<const Bytes> bytes, Clock::time_point now) {
    bytes_ += bytes->size();
    held_.push_back({bundle, chunk, std::move(bytes), now});
    while (bytes_ > kMaxBytes) drop_oldest();
  }
  std::shared_ptr<const Bytes> find(const BundleId& bundle, ChunkIndex chunk) const {
    for (auto it = held_.rbegin(); it != held_.rend(); ++it) {
      if (it->chunk == chunk && it->bundle == bundle) return it->bytes;
    }
    return nullptr;
  }
  void forget_old(Clock::time_point now) {
    while (!held_.empty() && now - held_.front().at > kMaxAge) drop_oldest();
  }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Held {
    BundleId bundle;
    ChunkIndex chunk;
    std::shared_ptr<const Bytes> bytes;
    Clock::time_point at;
  };
  void drop_oldest() {
    bytes_ -= held_.front().bytes->size();
    held_.pop_front();
  }
  std::deque<Held> held_;  // oldest first
  std::size_t bytes_ = 0;
};

}  // namespace p2pw
