// Listening sockets. Hands every accepted connection on; when the process is out of descriptors it pauses
// instead of spinning.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <list>
#include <vector>

#include "daemon/link/alive.h"
#include "daemon/link/link_hub.h"

namespace p2pw {

class Listener {
 public:
  using Accepted = std::function<void(boost::asio::ip::tcp::socket)>;
  Listener(boost::asio::io_context& io, Accepted accepted) : io_(io), accepted_(std::move(accepted)) {}

  // Error: io, when one of them cannot be bound.
  Status listen(const std::vector<LinkEndpoint>& endpoints);
  const std::vector<LinkEndpoint>& listening() const { return listening_; }  // with the real ports
  void close();

 private:
  struct Socket {
    explicit Socket(boost::asio::io_context& io) : acceptor(io), pause(io) {}
    boost::asio::ip::tcp::acceptor acceptor;
    boost::asio::steady_timer pause;
  };
  void next(Socket& socket);

  boost::asio::io_context& io_;
  Accepted accepted_;
  std::list<Socket> sockets_;
  std::vector<LinkEndpoint> listening_;
  Alive alive_;
};

}  // namespace p2pw
