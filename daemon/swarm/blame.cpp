#include "daemon/swarm/blame.h"

#include <set>

namespace p2pw {

void Blame::received(ChunkIndex chunk, std::uint32_t block, std::uint32_t blocks, Sender sender) {
  if (block >= blocks) return;
  std::vector<Sender>& senders = senders_[chunk];
  senders.resize(blocks, 0);
  if (senders[block] == 0) senders[block] = sender;
}

std::vector<Blame::Sender> Blame::failed(ChunkIndex chunk, const std::vector<Sha256>& block_hashes) {
  auto node = senders_.extract(chunk);
  if (node.empty()) return {};
  std::set<Sender> known(node.mapped().begin(), node.mapped().end());
  known.erase(0);
  if (known.size() == 1) return {*known.begin()};
  std::vector<Attempt>& attempts = attempts_[chunk];
  if (attempts.size() < kMaxAttempts) attempts.push_back({block_hashes, std::move(node.mapped())});
  return {};
}

std::vector<Blame::Sender> Blame::passed(ChunkIndex chunk, const std::vector<Sha256>& block_hashes) {
  senders_.erase(chunk);
  auto node = attempts_.extract(chunk);
  if (node.empty()) return {};
  std::set<Sender> guilty;
  for (const Attempt& attempt : node.mapped()) {
    for (std::size_t i = 0;
         i < attempt.senders.size() && i < attempt.hashes.size() && i < block_hashes.size(); ++i) {
      if (attempt.senders[i] != 0 && attempt.hashes[i] != block_hashes[i]) guilty.insert(attempt.senders[i]);
    }
  }
  return {guilty.begin(), guilty.end()};
}

void Blame::forget(ChunkIndex chunk) {
  senders_.erase(chunk);
  attempts_.erase(chunk);
}

}  // namespace p2pw
