#include "daemon/spread/chunk_set.h"

namespace p2pw {

ChunkSet ChunkSet::from_wire(std::string_view bits, std::uint32_t chunks) {
  ChunkSet set(chunks);
  for (std::uint32_t i = 0; i < chunks && i / 8 < bits.size(); ++i) {
    if ((static_cast<unsigned char>(bits[i / 8]) >> (i % 8)) & 1) set.bits_.set(i);
  }
  return set;
}

std::string ChunkSet::to_wire() const {
  std::string bits((bits_.size() + 7) / 8, '\0');
  for (auto i = bits_.find_first(); i != boost::dynamic_bitset<>::npos; i = bits_.find_next(i)) {
    bits[i / 8] = static_cast<char>(static_cast<unsigned char>(bits[i / 8]) | (1u << (i % 8)));
  }
  return bits;
}

}  // namespace p2pw
