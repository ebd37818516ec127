#include "daemon/swarm/peer_internals.h"

#include <libtorrent/aux_/socket_type.hpp>
#include <libtorrent/peer_connection.hpp>
#include <libtorrent/torrent_peer.hpp>
#include <libtorrent/version.hpp>

static_assert(LIBTORRENT_VERSION_MAJOR == 2 && LIBTORRENT_VERSION_MINOR == 0,
              "these internals were checked against libtorrent 2.0");

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

bool allow_hash_exchange(const lt::peer_connection_handle& connection, bool allowed) {
  const std::shared_ptr<lt::peer_connection> peer = connection.native_handle();
  if (!peer || peer->peer_info_struct() == nullptr) return false;
  if (peer->peer_info_struct()->port != connection.remote().port()) return false;
  peer->peer_info_struct()->protocol_v2 = allowed;
  return true;
}

}  // namespace p2pw
