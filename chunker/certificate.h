// What a `certify` record states: a SHA-256 root over all slabs of one version. Slab digests (XXH3-128) guard against
// accidents only; against somebody who makes bytes fit a digest stands this. The list of hashes is bound by its root, so
// it may come from anybody, and tells which slab is wrong.
//
//   root = SHA-256("p2pw certify 1", u32 number of byte slabs, u32 number of tensor slabs, SHA-256 of each, byte slabs first)
#pragma once

#include <functional>

#include "chunker/layout.h"
#include "protocol/hash.h"

namespace p2pw {

Sha256 slab_root(std::size_t byte_slabs, std::size_t tensor_slabs, std::span<const Sha256> hashes);

// Of a checkpoint folder that was published, on several threads. `table_hash`: what its seal says; a folder that has been
// written to since is found out. Errors: those of SlabReader; integrity; interrupted.
Result<Sha256> certificate_root(const std::filesystem::path& directory, const Layout& layout, const Sha256& table_hash,
                                unsigned threads, const std::function<bool()>& stop);

}  // namespace p2pw
