// What waits to be written to a link. Payloads are shared, never copied here. Pure, any one thread.
#pragma once

#include <algorithm>
#include <deque>
#include <optional>

#include "daemon/link/link_hub.h"

namespace p2pw {

enum class Cargo { control, chunk, bulk };

// One framed message: prefix and header, then the payload if there is one.
struct Outgoing {
  Bytes head;
  SharedBytes payload = {};
  Cargo cargo = Cargo::control;
  BundleId bundle = {};  // of a chunk

  std::size_t payload_size() const { return payload ? payload->size() : 0; }
  std::size_t size() const { return head.size() + payload_size(); }
};

class SendQueue {
 public:
  bool empty() const { return items_.empty(); }
  std::uint64_t bytes() const { return bytes_; }
  void push(Outgoing item) {
    bytes_ += item.size();
    items_.push_back(std::move(item));
  }
  void push_front(Outgoing item) {
    bytes_ += item.size();
    items_.push_front(std::move(item));
  }
  std::optional<Outgoing> pop() {
    if (items_.empty()) return std::nullopt;
    Outgoing item = std::move(items_.front());
    items_.pop_front();
    bytes_ -= item.size();
    return item;
  }
  // Forgets the chunks of this bundle; the bytes that will not be written.
  std::uint64_t cut(const BundleId& bundle) {
    std::uint64_t removed = 0;
    std::erase_if(items_, [&](const Outgoing& item) {
      const bool cut = item.cargo == Cargo::chunk && item.bundle == bundle;
      if (cut) removed += item.size();
      return cut;
    });
    bytes_ -= removed;
    return removed;
  }

 private:
  std::deque<Outgoing> items_;
  std::uint64_t bytes_ = 0;
};

}  // namespace p2pw
