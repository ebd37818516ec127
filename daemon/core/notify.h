// What a service manager wants to know: a datagram to $NOTIFY_SOCKET (sd_notify's protocol, without its library).
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <string>

namespace p2pw {

class Node;

// "READY=1", "STOPPING=1", "STATUS=..."; does nothing without a service manager.
void notify_service_manager(const std::string& state);

// Says every few seconds that the control thread runs, and one line on how far the channels are.
class Watchdog {
 public:
  Watchdog(boost::asio::io_context& io, Node& node);

 private:
  void beat();
  boost::asio::steady_timer timer_;
  Node& node_;
};

}  // namespace p2pw
