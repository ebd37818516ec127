// What libtorrent 2.0 has no setting for, reached through inline accessors of its own headers. Where a
// connection is not what it is taken for, nothing is changed. Network thread only.
#pragma once

#include <libtorrent/peer_connection_handle.hpp>

namespace p2pw {

// Switches Nagle's algorithm off: a request or the end of a block would wait up to 40 ms for the other end's
// delayed acknowledgement.
bool set_no_delay(const lt::peer_connection_handle& connection);

// Whether this connection may carry the hash messages of BEP 52. Our torrents come with their piece layers
// and Blame compares blocks by itself, so nobody needs them, and in 2.0.8 a rejected hash request writes out
// of bounds. With them off, libtorrent sends none and closes a connection that brings one. libtorrent decides
// by the same flag which info-hash to put into a handshake, so it must be on while that is written.
bool allow_hash_exchange(const lt::peer_connection_handle& connection, bool allowed);

}  // namespace p2pw
