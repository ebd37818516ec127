// Metas that come before the record that binds them: they cannot be checked yet. Bounded in number and bytes, the oldest go
// first; what is lost is asked for again. Control thread only.
#pragma once

#include <deque>
#include <optional>
#include <unordered_map>

#include "protocol/ids.h"

namespace p2pw {

class EarlyMetas {
 public:
  explicit EarlyMetas(std::size_t most = 256, std::size_t max_bytes = 64u << 20) : most_(most), max_bytes_(max_bytes) {}

  void add(const BundleId& bundle, Bytes meta) {
    if (meta.size() > max_bytes_ || metas_.contains(bundle)) return;
    bytes_ += meta.size();
    metas_.emplace(bundle, std::move(meta));
    order_.push_back(bundle);
    while (metas_.size() > most_ || bytes_ > max_bytes_) (void)take(BundleId(order_.front()));
  }
  std::optional<Bytes> take(const BundleId& bundle) {
    auto it = metas_.find(bundle);
    if (it == metas_.end()) return std::nullopt;
    Bytes meta = std::move(it->second);
    bytes_ -= meta.size();
    metas_.erase(it);
    std::erase(order_, bundle);
    return meta;
  }
  std::size_t size() const { return metas_.size(); }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t most_, max_bytes_;
  std::size_t bytes_ = 0;
  std::unordered_map<BundleId, Bytes> metas_;
  std::deque<BundleId> order_;  // oldest first
};

}  // namespace p2pw
