// Who sent the bytes that failed a chunk's hash. Several neighbours may have contributed to one chunk: if it
// was one, that one is guilty at once; if it was several, the block hashes of the failed attempt are kept
// until the chunk passes, and whoever had sent a block that differs is guilty then.
//
// A pure value: no sockets, no clock.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "protocol/ids.h"

namespace p2pw {

class Blame {
 public:
  using Sender = std::uint32_t;  // numbers that the caller gives; 0 is nobody

  // A block of a chunk of `blocks` blocks came from `sender`. The first to send a block is the one that
  // counts: later copies are thrown away unseen.
  void received(ChunkIndex chunk, std::uint32_t block, std::uint32_t blocks, Sender sender);

  // The chunk's hash did not match; the guilty as far as they are known.
  std::vector<Sender> failed(ChunkIndex chunk, const std::vector<Sha256>& block_hashes);
  // It matches now; who is guilty of the attempts before.
  std::vector<Sender> passed(ChunkIndex chunk, const std::vector<Sha256>& block_hashes);
  // Nobody's bytes were needed (the chunk came another way).
  void forget(ChunkIndex chunk);

 private:
  static constexpr std::size_t kMaxAttempts = 8;  // of one chunk that are kept
  struct Attempt {
    std::vector<Sha256> hashes;
    std::vector<Sender> senders;
  };
  std::map<ChunkIndex, std::vector<Sender>> senders_;
  std::map<ChunkIndex, std::vector<Attempt>> attempts_;
};

}  // namespace p2pw
