// A bundle as a torrent: v2 only (BEP 52), one file of whole chunks, a pure function of the bundle's id and
// record, so that every node of a fleet arrives at the same info-hash without exchanging anything. The id is
// the hash of a signed record that leads back to a random salt, hence nobody outside the fleet can guess the
// info-hash.
//
//   info: { file tree: { NAME: { "": { length, pieces root } } }, meta version: 2, name: NAME, p2pw: ID,
//   piece length } piece layers: { pieces root: all chunk roots }   (absent for a single chunk, as BEP 52
//   wants it)
//
// NAME is the id in hex, ID the id's 32 bytes. A chunk is a piece; `length` counts the padding of the last
// chunk.
#pragma once

#include <libtorrent/fwd.hpp>
#include <memory>
#include <span>

#include "protocol/record.h"

namespace p2pw {

// The bencoded torrent. Errors: malformed (wrong number of roots, sizes that no record may state), integrity
// (the roots are not those that the record is bound to).
Result<Bytes> torrent_bytes(const BundleId& id, const BundleRecord& record, std::span<const ChunkRoot> roots);

// The same, read by libtorrent. Errors also: failed, when libtorrent refuses it.
Result<std::shared_ptr<lt::torrent_info>> make_torrent(const BundleId& id, const BundleRecord& record,
                                                       std::span<const ChunkRoot> roots);

}  // namespace p2pw
