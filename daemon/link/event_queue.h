// Calls to the LinkHandler, in order, and never from inside one of its own calls to the hub: what happens
// during such a call is told afterwards.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <deque>
#include <functional>

#include "daemon/link/alive.h"

namespace p2pw {

class EventQueue {
 public:
  explicit EventQueue(boost::asio::io_context& io) : io_(io) {}
  EventQueue(const EventQueue&) = delete;

  // Lives as long as a call from outside.
  class OutsideCall {
   public:
    explicit OutsideCall(EventQueue& queue) : queue_(queue) { ++queue_.depth_; }
    OutsideCall(const OutsideCall&) = delete;
    ~OutsideCall() {
      if (--queue_.depth_ == 0 && !queue_.events_.empty()) queue_.drain_later();
    }

   private:
    EventQueue& queue_;
  };

  void add(std::function<void()> event) {
    events_.push_back(std::move(event));
    if (depth_ == 0) drain();
  }
  // Before anything is told directly. REQUIRES: no outside call on the stack.
  void drain() {
    if (draining_) return;
    draining_ = true;
    while (!events_.empty()) {
      auto event = std::move(events_.front());
      events_.pop_front();
      event();
    }
    draining_ = false;
  }

 private:
  void drain_later() {
    boost::asio::post(io_, alive_.guard([this] { drain(); }));
  }

  boost::asio::io_context& io_;
  std::deque<std::function<void()>> events_;
  int depth_ = 0;
  bool draining_ = false;
  Alive alive_;
};

}  // namespace p2pw
