#include "daemon/swarm/no_delay.h"

#include <libtorrent/peer_connection.hpp>
#include <libtorrent/aux_/socket_type.hpp>

namespace p2pw {

bool set_no_delay(const lt::peer_connection_handle& connection) {
  const std::shared_ptr<lt::peer_connection> peer = connection.native_handle();
  if (!peer) return false;
  auto* socket = boost::get<lt::tcp::socket>(&peer->get_socket());
  if (socket == nullptr) return false;
  lt::error_code error;
  if (socket->remote_endpoint(error) != connection.remote() || error) return false;
  socket->set_option(lt::tcp::no_delay(true), error);
  return !error;
}

}  // namespace p2pw
