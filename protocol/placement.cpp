#include "protocol/placement.h"

#include <sodium.h>

#include <algorithm>
#include <tuple>

#include "protocol/crypto_init.h"

namespace p2pw {

Follows::Follows(std::vector<Channel> only) : all_(false), only_(std::move(only)) {
  std::sort(only_.begin(), only_.end());
  only_.erase(std::unique(only_.begin(), only_.end()), only_.end());
}

bool Follows::has(const Channel& channel) const {
  return all_ || std::binary_search(only_.begin(), only_.end(), channel);
}

namespace {

// One rendezvous: SipHash-2-4 of the candidate under a key made from what is being placed. SipHash costs 20 ns a
// candidate, so that placing one bundle among thousands of nodes is nothing.
class Rendezvous {
 public:
  Rendezvous(std::string_view label, ByteView subject) {
    init_crypto();
    crypto_generichash_state state;
    crypto_generichash_init(&state, nullptr, 0, key_.size());
    const auto size = static_cast<std::uint8_t>(label.size());
    crypto_generichash_update(&state, &size, 1);
    crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(label.data()), label.size());
    crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(subject.data()), subject.size());
    crypto_generichash_final(&state, key_.data(), key_.size());
  }

  std::uint64_t score(ByteView candidate) const {
    std::array<std::uint8_t, crypto_shorthash_BYTES> hash;
    crypto_shorthash(hash.data(), reinterpret_cast<const unsigned char*>(candidate.data()), candidate.size(),
                     key_.data());
    std::uint64_t score = 0;
    for (std::size_t i = 0; i < hash.size(); ++i) score |= std::uint64_t(hash[i]) << (8 * i);
    return score;
  }

 private:
  std::array<std::uint8_t, crypto_shorthash_KEYBYTES> key_;
};

struct Scored {
  std::uint64_t score;
  const Member* member;
  bool before(const Scored& other) const {
    return score != other.score ? score > other.score : member->key < other.member->key;
  }
};

// The candidates of the region as members, highest score first.
std::vector<Scored> best_of(const Channel& channel, const Region& region, std::span<const Member> members,
                            std::size_t count) {
  const Rendezvous rendezvous("p2pw gateway candidates 1", as_bytes(channel.str()));
  std::vector<Scored> scored;
  for (const Member& member : members) {
    if (member.trainer || member.region != region || !member.follows.has(channel)) continue;
    scored.push_back({rendezvous.score(member.key.view()), &member});
  }
  count = std::min(count, scored.size());
  std::partial_sort(scored.begin(), scored.begin() + static_cast<std::ptrdiff_t>(count), scored.end(),
                    [](const Scored& a, const Scored& b) { return a.before(b); });
  scored.resize(count);
  return scored;
}

std::vector<NodeKey> keys_of(std::span<const Scored> scored) {
  std::vector<NodeKey> keys;
  keys.reserve(scored.size());
  for (const Scored& entry : scored) keys.push_back(entry.member->key);
  return keys;
}

}  // namespace

std::vector<NodeKey> gateway_candidates(const Channel& channel, const Region& region, std::span<const Member> members,
                                        std::size_t count) {
  return keys_of(best_of(channel, region, members, count));
}

std::vector<NodeKey> gateway_succession(const BundlePlace& bundle, const Region& region,
                                        std::span<const Member> members, std::size_t count) {
  std::vector<Scored> candidates = best_of(bundle.channel, region, members, count);
  if (candidates.empty()) return {};
  auto first = static_cast<std::ptrdiff_t>(bundle.index.value() % candidates.size());
  std::rotate(candidates.begin(), candidates.begin() + first, candidates.end());
  std::stable_partition(candidates.begin(), candidates.end(), [](const Scored& c) { return !c.member->suspect; });
  return keys_of(candidates);
}

namespace {

constexpr std::uint32_t kUnstated = 0xffff'ffff;

std::uint32_t median_rate(std::vector<RegionRate> rates) {
  const auto middle = rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2);
  std::nth_element(rates.begin(), middle, rates.end(), [](auto& a, auto& b) { return a.mbit < b.mbit; });
  return middle->mbit;
}

}  // namespace

// By name. There are few regions and many members.
std::vector<RegionRate> region_rates(const Channel& channel, std::span<const Member> members) {
  std::vector<RegionRate> rates;
  for (const Member& member : members) {
    if (member.trainer || !member.follows.has(channel)) continue;
    const std::uint32_t mbit = member.wan_mbit == 0 ? kUnstated : member.wan_mbit;
    const auto at = std::lower_bound(rates.begin(), rates.end(), member.region,
                                     [](const RegionRate& r, const Region& name) { return r.region < name; });
    if (at != rates.end() && at->region == member.region) {
      at->mbit = std::min(at->mbit, mbit);
    } else {
      rates.insert(at, {member.region, mbit});
    }
  }
  return rates;
}

std::vector<Region> region_order(const BundlePlace& bundle, const Region& home, std::span<const Member> members) {
  return order_regions(bundle, home, region_rates(bundle.channel, members));
}

std::vector<Region> order_regions(const BundlePlace& bundle, const Region& home, std::vector<RegionRate> away) {
  std::vector<Region> order;
  std::erase_if(away, [&](const RegionRate& r) {
    if (r.region != home) return false;
    order.push_back(home);
    return true;
  });
  if (away.empty()) return order;
  const Rendezvous rendezvous("p2pw region order 2", bundle.run.view());
  std::vector<std::pair<std::uint64_t, RegionRate>> scored;
  for (const RegionRate& r : away) scored.emplace_back(rendezvous.score(as_bytes(r.region.str())), r);
  std::sort(scored.begin(), scored.end(), [](auto& a, auto& b) {
    return std::tie(a.first, a.second.region) < std::tie(b.first, b.second.region);
  });
  const auto first = static_cast<std::ptrdiff_t>(bundle.index.value() % scored.size());
  std::rotate(scored.begin(), scored.begin() + first, scored.end());
  const std::uint32_t half = median_rate(away) / 2;
  const auto slow = std::stable_partition(scored.begin(), scored.end(), [&](auto& s) { return s.second.mbit >= half; });
  // Among slow ones the slowest come last: nobody is fed by a slower one.
  std::stable_sort(slow, scored.end(), [](auto& a, auto& b) { return a.second.mbit > b.second.mbit; });
  for (const auto& [score, rate] : scored) order.push_back(rate.region);
  return order;
}

std::vector<std::size_t> RelayTree::children_of(std::int32_t index) const {
  std::vector<std::size_t> children;
  for (std::size_t i = 0; i < parent.size(); ++i) {
    if (parent[i] == index) children.push_back(i);
  }
  return children;
}

std::int32_t RelayTree::index_of(const Region& region) const {
  const auto found = std::find(order.begin(), order.end(), region);
  return found == order.end() ? -2 : static_cast<std::int32_t>(found - order.begin());
}

RelayTree relay_tree(std::vector<Region> order, TreeShape shape) {
  const std::size_t root = std::max<std::size_t>(shape.root_children, 1);
  RelayTree tree;
  tree.order = std::move(order);
  tree.parent.reserve(tree.order.size());
  for (std::size_t i = 0; i < tree.order.size(); ++i) {
    const bool from_trainer = i < root || shape.fan_out == 0;
    tree.parent.push_back(from_trainer ? -1 : static_cast<std::int32_t>((i - root) / shape.fan_out));
  }
  return tree;
}

}  // namespace p2pw
