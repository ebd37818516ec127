#include "tests/swarm/raw_peer.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <libtorrent/torrent_info.hpp>
#include <list>

#include "daemon/swarm/torrent.h"
#include "tests/swarm/swarm_world.h"

namespace p2pw::testing {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

std::string handshake(const std::string& info_hash) {
  std::string text =
      std::string(1, 19) + "BitTorrent protocol" + std::string(8, '\0') + info_hash + "-XX0000-aaaaaaaaaaaa";
  text[27] |= 0x04;  // the fast extension, for have-all
  text[27] |= 0x10;  // a v2 torrent
  return text;
}

std::uint32_t number(const std::array<unsigned char, 4>& b) {
  return (std::uint32_t(b[0]) << 24) | (std::uint32_t(b[1]) << 16) | (std::uint32_t(b[2]) << 8) | b[3];
}

}  // namespace

SilentPeer::SilentPeer(const std::string& address)
    : acceptor_(io_, tcp::endpoint(asio::ip::make_address(address), 0)),
      port_(acceptor_.local_endpoint().port()) {
  thread_ = std::thread([this] { run(); });
}

SilentPeer::~SilentPeer() {
  stopping_ = true;
  {  // ends accept()
    asio::io_context io;
    tcp::socket poke(io);
    boost::system::error_code ignored;
    poke.connect(acceptor_.local_endpoint(), ignored);
  }
  thread_.join();
}

void SilentPeer::run() {
  std::list<std::thread> peers;
  while (!stopping_) {
    boost::system::error_code error;
    tcp::socket socket = acceptor_.accept(error);
    if (error || stopping_) break;
    peers.emplace_back([this, s = std::move(socket)]() mutable { serve(std::move(s)); });
  }
  for (std::thread& peer : peers) peer.join();
}

void SilentPeer::serve(tcp::socket socket) {
  boost::system::error_code error;
  std::array<char, 68> theirs;
  asio::read(socket, asio::buffer(theirs), error);
  if (error) return;
  const std::string info_hash(theirs.data() + 28, 20);
  const std::string messages =
      handshake(info_hash) + std::string("\0\0\0\1\x0e", 5) + std::string("\0\0\0\1\1", 5);
  asio::write(socket, asio::buffer(messages), error);
  while (!error) {
    std::array<unsigned char, 4> length;
    asio::read(socket, asio::buffer(length), error);
    if (error) break;
    std::string body(std::min<std::uint32_t>(number(length), 1u << 20), '\0');
    asio::read(socket, asio::buffer(body), error);
    if (!error && !body.empty() && body[0] == 6) ++requests_;
  }
  ++closed_;
}

namespace {

bool shake_hands(tcp::socket& socket, const std::string& from, const std::string& address, std::uint16_t port,
                 const std::string& info_hash) {
  boost::system::error_code error;
  socket.open(tcp::v4());
  socket.bind(tcp::endpoint(asio::ip::make_address(from), 0));
  socket.connect(tcp::endpoint(asio::ip::make_address(address), port), error);
  if (!error) asio::write(socket, asio::buffer(handshake(info_hash)), error);
  std::array<char, 68> answer;
  if (!error) asio::read(socket, asio::buffer(answer), error);
  return !error;
}

// A message without its length; empty when the connection has ended.
std::string read_message(tcp::socket& socket) {
  boost::system::error_code error;
  std::array<unsigned char, 4> length{};
  std::string body;
  while (!error && body.empty()) {
    asio::read(socket, asio::buffer(length), error);
    if (error) break;
    body.resize(std::min<std::uint32_t>(number(length), 1u << 20));
    asio::read(socket, asio::buffer(body), error);
  }
  return error ? std::string() : body;
}

}  // namespace

bool answers_handshake(const std::string& from, const std::string& address, std::uint16_t port,
                       const std::string& info_hash) {
  asio::io_context io;
  tcp::socket socket(io);
  return shake_hands(socket, from, address, port, info_hash);
}

bool closes_on(const std::string& from, const std::string& address, std::uint16_t port,
               const std::string& info_hash, const std::string& message) {
  asio::io_context io;
  tcp::socket socket(io);
  if (!shake_hands(socket, from, address, port, info_hash)) return false;
  boost::system::error_code error;
  const std::string framed = std::string("\0\0\0", 3) + static_cast<char>(message.size()) + message;
  asio::write(socket, asio::buffer(framed), error);
  for (std::string answer = read_message(socket); !answer.empty(); answer = read_message(socket)) {
    if (answer[0] >= 21 && answer[0] <= 23) return false;
  }
  return true;
}

namespace {

std::string text_of(const sockaddr_in& address) {
  char text[INET_ADDRSTRLEN] = "";
  inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
  return text;
}

}  // namespace

std::vector<bool> no_delay_of_sockets_between(const std::string& a, const std::string& b) {
  std::vector<bool> found;
  for (int fd = 0; fd < 1024; ++fd) {
    sockaddr_in here{}, there{};
    socklen_t here_size = sizeof here, there_size = sizeof there;
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&here), &here_size) != 0 || here.sin_family != AF_INET)
      continue;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&there), &there_size) != 0) continue;
    const std::set<std::string> ends{text_of(here), text_of(there)};
    int option = 0;
    socklen_t size = sizeof option;
    if (ends != std::set<std::string>{a, b} || getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &option, &size) != 0)
      continue;
    found.push_back(option != 0);
  }
  return found;
}

std::string wire_hash(const TestBundle& bundle) {
  auto info = make_torrent(bundle.id, bundle.record, bundle.roots);
  const lt::sha1_hash hash = (*info)->info_hashes().get(lt::protocol_version::V2);
  return std::string(hash.data(), 20);
}

}  // namespace p2pw::testing
