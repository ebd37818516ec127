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
  static constexpr std::size_t kOverhead = 256;  // of a chunk, at least: empty ones take room, too

  explicit EarlyChunks(std::size_t max_bytes = 64u << 20) : max_bytes_(max_bytes) {}

  void add(const BundleId& bundle, EarlyChunk chunk) {
    bytes_ += chunk.payload.size() + kOverhead;
    auto [held, first] = held_.try_emplace(bundle);
    if (first) order_.push_back(bundle);
    held->second.push_back(std::move(chunk));
    while (bytes_ > max_bytes_) take(BundleId(order_.front()));
  }
  std::vector<EarlyChunk> take(const BundleId& bundle) {
    auto it = held_.find(bundle);
    if (it == held_.end()) return {};
    auto chunks = std::move(it->second);
    held_.erase(it);
    std::erase(order_, bundle);
    for (const EarlyChunk& chunk : chunks) bytes_ -= chunk.payload.size() + kOverhead;
    return chunks;
  }
  std::size_t bytes() const { return bytes_; }
  std::size_t bundles() const { return held_.size(); }

 private:
  std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  std::deque<BundleId> order_;  // oldest first
  std::unordered_map<BundleId, std::vector<EarlyChunk>> held_;
};

}  // namespace p2pw
