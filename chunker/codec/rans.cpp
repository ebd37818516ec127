#include "chunker/codec/rans.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "chunker/codec/kernels.h"

namespace p2pw::codec {

void RansModel::build(const Shares& shares) {
  std::fill(std::begin(share), std::end(share), 0);
  std::uint32_t first = 0;
  for (std::size_t symbol = 0; symbol < shares.used; ++symbol) {
    const std::uint32_t f = shares.share[symbol];
    if (f == 0) continue;
    share[symbol] = f | first << 16;
    const std::uint32_t entry = static_cast<std::uint32_t>(symbol) | f << 8;
    for (std::uint32_t i = 0; i < f; ++i) decode[first + i] = entry | i << 20;
    first += f;
  }
}

std::span<const std::uint16_t> rans_encode(std::span<const RansSequence> sequences, unsigned lane_count, Lanes& lanes,
                                           std::vector<std::uint16_t>& scratch) {
  std::size_t total = 0;
  for (const auto& sequence : sequences) total += sequence.symbols.size();
  constexpr std::size_t kBelow = 16;  // kernels may write that much below the first word
  if (scratch.size() < total + kBelow) scratch.resize(total + total / 2 + kBelow);
  std::uint16_t* out = scratch.data() + scratch.size();
  for (std::size_t s = sequences.size(); s-- > 0;) {
    const RansModel& model = *sequences[s].model;
    const auto symbols = sequences[s].symbols;
    if (lane_count >= kLanes) {
      out = kernels().rans_encode[lane_count / kLanes - 1](model, symbols.data(), symbols.size(), lanes.data(), out);
    } else {
      for (std::size_t i = symbols.size(); i-- > 0;) rans_put(model, symbols[i], lanes[0], out);
    }
  }
  return {out, scratch.data() + scratch.size()};
}

bool RansDecoder::decode(const RansModel& model, std::span<std::uint8_t> symbols) {
  if (lane_count_ >= kLanes) {
    at_ = kernels().rans_decode[lane_count_ / kLanes - 1](model.decode, symbols.data(), symbols.size(), lanes_.data(), at_, end_);
    return at_ != nullptr;
  }
  for (std::uint8_t& symbol : symbols) {
    if (!rans_get(model.decode, symbol, lanes_[0], at_, end_)) return false;
  }
  return true;
}

bool RansDecoder::finished() const {
  return at_ == end_ &&
         std::all_of(lanes_.begin(), lanes_.begin() + lane_count_, [](std::uint32_t x) { return x >> 16 == 1; });
}

Shares shares_of(std::span<const std::uint64_t> counts) {
  Shares shares;
  shares.used = counts.size();
  std::uint64_t total = 0;
  for (std::uint64_t count : counts) total += count;
  std::int64_t left = kProbabilityScale;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    const std::uint64_t share = (counts[i] * kProbabilityScale + total / 2) / total;
    shares.share[i] = static_cast<std::uint16_t>(std::clamp<std::uint64_t>(share, 1, kProbabilityScale - 1));
    left -= shares.share[i];
  }
  // What rounding left over goes to, or comes from, the largest share, where it costs least.
  while (left != 0) {
    const auto largest = std::max_element(shares.share.begin(), shares.share.begin() + shares.used);
    const std::int64_t least = left < 0 ? (*largest + 1) / 2 : 1;
    const std::int64_t got = std::clamp<std::int64_t>(*largest + left, least, kProbabilityScale - 1);
    left -= got - *largest;
    *largest = static_cast<std::uint16_t>(got);
    if (left > 0 && got == kProbabilityScale - 1) {
      // A lone symbol may not have everything: another one takes the rest.
      const std::size_t other = largest == shares.share.begin() ? 1 : 0;
      shares.share[other] = static_cast<std::uint16_t>(shares.share[other] + left);
      shares.used = std::max(shares.used, other + 1);
      left = 0;
    }
  }
  return shares;
}

}  // namespace p2pw::codec
