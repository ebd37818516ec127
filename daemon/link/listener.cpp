#include "daemon/link/listener.h"

#include <spdlog/spdlog.h>

#include "daemon/link/connector.h"

namespace p2pw {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr std::chrono::milliseconds kPause{100};

}  // namespace

Status Listener::listen(const std::vector<LinkEndpoint>& endpoints) {
  for (const auto& endpoint : endpoints) {
    Socket& socket = sockets_.emplace_back(io_);
    boost::system::error_code error;
    const tcp::endpoint local(asio::ip::make_address(endpoint.host, error), endpoint.port);
    if (!error) socket.acceptor.open(local.protocol(), error);
    if (!error) socket.acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) socket.acceptor.bind(local, error);
    if (!error) socket.acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      return fail(ErrorCode::io,
                  "cannot listen for links on " + to_string(endpoint) + ": " + error.message());
    }
    listening_.push_back({endpoint.host, socket.acceptor.local_endpoint(error).port()});
  }
  for (Socket& socket : sockets_) next(socket);
  return {};
}

void Listener::next(Socket& socket) {
  socket.acceptor.async_accept(
      alive_.guard([this, &socket](boost::system::error_code error, tcp::socket accepted) {
        if (!socket.acceptor.is_open()) return;
        if (!error) {
          accepted_(std::move(accepted));
          return next(socket);
        }
        spdlog::warn("links: cannot accept a connection: {}", error.message());
        socket.pause.expires_after(kPause);
        socket.pause.async_wait(alive_.guard([this, &socket](boost::system::error_code) {
          if (socket.acceptor.is_open()) next(socket);
        }));
      }));
}

void Listener::close() {
  boost::system::error_code ignored;
  for (Socket& socket : sockets_) {
    socket.acceptor.close(ignored);
    socket.pause.cancel();
  }
}

}  // namespace p2pw
