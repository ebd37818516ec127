// Chunks that come before their bundle is known: they travel on other connections than records and metas and may overtake
// them. Bounded; what does not fit is dropped and will be sent again. Control thread only.
#pragma once

#include <deque>
#include <unordered_map>
#include <vector>

#include "protocol/ids.h"

namespace p2pw {

struct EarlyChunk {
  NodeKey from;
  ChunkIndex chunk;
  Epoch epoch;
  Bytes payload;
};

class EarlyChunks {
 public:
  explicit EarlyChunks(std::size_t max_bytes = 64u << 20) : max_bytes_(max_bytes) {}

  void add(const BundleId& bundle, EarlyChunk chunk) {
    bytes_ += chunk.payload.size();
    order_.push_back(bundle);
    held_[bundle].push_back(std::move(chunk));
    while (bytes_ > max_bytes_ && !order_.empty()) {
      BundleId oldest = order_.front();
      order_.pop_front();
      take(oldest);
    }
  }
  std::vector<EarlyChunk> take(const BundleId& bundle) {
    auto it = held_.find(bundle);
    if (it == held_.end()) return {};
    auto chunks = std::move(it->second);
    held_.erase(it);
    for (const EarlyChunk& chunk : chunks) bytes_ -= chunk.payload.size();
    return chunks;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  std::deque<BundleId> order_;
  std::unordered_map<BundleId, std::vector<EarlyChunk>> held_;
};

}  // namespace p2pw
