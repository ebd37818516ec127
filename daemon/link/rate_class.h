// The links that share one rate: those to other regions, and those inside the region.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <functional>

#include "daemon/link/alive.h"

#include "daemon/link/connection.h"
#include "daemon/link/rate_limit.h"

namespace p2pw {

class RateClass {
 public:
  // `wake`: some may be written again; links are to ask once more, each time another one first (`turn`).
  RateClass(boost::asio::io_context& io, std::function<void(std::size_t turn)> wake)
      : timer_(io), wake_(std::move(wake)) {}

  void set(std::uint64_t rate_bits) {
    limit_.set(rate_bits);
    timer_.cancel();
    waiting_ = false;
    wake_(++turn_);
  }
  // Payload bytes that the asking link may write now. After 0 it is woken.
  std::size_t allowance() {
    if (!limit_.limited()) return Connection::kBatchBytes;
    const std::int64_t allowed = limit_.allowed(std::chrono::steady_clock::now());
    if (allowed >= static_cast<std::int64_t>(LinkScratch::kRecordBytes))
      return static_cast<std::size_t>(allowed);
    if (!waiting_) {
      waiting_ = true;
      timer_.expires_after(limit_.pause());
      timer_.async_wait(alive_.guard([this](boost::system::error_code error) {
        if (error) return;
        waiting_ = false;
        wake_(++turn_);
      }));
    }
    return 0;
  }
  void spend(std::uint64_t bytes) { limit_.spend(bytes); }

 private:
  RateLimit limit_;
  boost::asio::steady_timer timer_;
  std::function<void(std::size_t)> wake_;
  bool waiting_ = false;
  std::size_t turn_ = 0;
  Alive alive_;
};

}  // namespace p2pw
