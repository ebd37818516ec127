// Switches Nagle's algorithm off on a libtorrent connection. libtorrent 2.0 never does, and has no setting for it: a
// request or the end of a block then waits up to 40 ms for the other end's delayed acknowledgement.
//
// Reaches into libtorrent's own headers, inline accessors only; where the socket is not what it is taken for, nothing
// is changed.
#pragma once

#include <libtorrent/peer_connection_handle.hpp>

namespace p2pw {

bool set_no_delay(const lt::peer_connection_handle& connection);

}  // namespace p2pw
