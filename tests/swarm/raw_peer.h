// A peer that speaks just enough of the BitTorrent protocol to be a nuisance: it claims to have everything,
// lets itself be asked, and never answers.
#pragma once

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <string>
#include <thread>
#include <vector>

#include "protocol/ids.h"

namespace p2pw::testing {

class SilentPeer {
 public:
  explicit SilentPeer(const std::string& address);
  ~SilentPeer();
  std::uint16_t port() const { return port_; }
  // Requests that have come in, and connections that the other side has ended.
  int requests() const { return requests_; }
  int closed() const { return closed_; }

 private:
  void run();
  void serve(boost::asio::ip::tcp::socket socket);

  boost::asio::io_context io_;
  boost::asio::ip::tcp::acceptor acceptor_;
  std::uint16_t port_ = 0;
  std::atomic<int> requests_{0}, closed_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

// True when `address`:`port`, dialled from `from`, answers a handshake for this info-hash with one of its
// own.
bool answers_handshake(const std::string& from, const std::string& address, std::uint16_t port,
                       const std::string& info_hash);

// True when the other side, having answered the handshake, ends the connection after this message and sends
// none like it.
bool closes_on(const std::string& from, const std::string& address, std::uint16_t port,
               const std::string& info_hash, const std::string& message);

// TCP_NODELAY of every connected TCP socket of this process between these two addresses.
std::vector<bool> no_delay_of_sockets_between(const std::string& a, const std::string& b);

// The 20 bytes that stand for a bundle on the wire.
struct TestBundle;
std::string wire_hash(const TestBundle& bundle);

}  // namespace p2pw::testing
