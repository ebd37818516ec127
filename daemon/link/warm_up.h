// Padding that the stripes of a new link to another region carry while nothing else waits. A connection begins with ten
// segments a round trip and doubles from there: without it, the first version after a start pays for that on every hop.
// kBytes leave a stripe with a window of about as much, four of them move 100 Mbit/s at 86 ms. Once a stripe, and a
// message at a time, so that a chunk waits for no more than one of them.
//
// Pure; one thread at a time.
#pragma once

#include <map>
#include <optional>

#include "daemon/link/frames.h"
#include "daemon/link/send_queue.h"

namespace p2pw {

class WarmUp {
 public:
  static constexpr std::size_t kMessageBytes = 16u << 10;
  static constexpr std::size_t kBytes = 256u << 10;  // a stripe

  void begin(const void* stripe) { left_[stripe] = kBytes; }
  // Nothing: the stripe has had its part.
  std::optional<Outgoing> next(const void* stripe) {
    const auto it = left_.find(stripe);
    if (it == left_.end()) return std::nullopt;
    it->second -= kMessageBytes;
    if (it->second == 0) left_.erase(it);
    static const SharedBytes zeros = std::make_shared<const Bytes>(kMessageBytes);
    wire::LinkMessage message;
    message.mutable_padding();
    auto head = frame_head(message, kMessageBytes);
    if (!head) return std::nullopt;
    return Outgoing{.head = std::move(*head), .payload = zeros};
  }

 private:
  std::map<const void*, std::size_t> left_;
};

}  // namespace p2pw
