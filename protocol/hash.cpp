#include "protocol/hash.h"

#include <openssl/evp.h>

#include <bit>
#include <cassert>

#include "protocol/limits.h"
#include "protocol/must.h"

namespace p2pw {
namespace {

constexpr std::size_t kLeafBytes = 16u << 10;

void must(bool done) { p2pw::must(done, "SHA-256"); }

const EVP_MD* algorithm() {
  static EVP_MD* const fetched = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  must(fetched != nullptr);
  return fetched;
}

class Hasher {
 public:
  Hasher() : context_(EVP_MD_CTX_new()) { must(context_ != nullptr); }
  ~Hasher() { EVP_MD_CTX_free(context_); }
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void begin() { must(EVP_DigestInit_ex2(context_, algorithm(), nullptr) == 1); }
  void add(const void* bytes, std::size_t size) { must(EVP_DigestUpdate(context_, bytes, size) == 1); }
  Sha256 end() {
    Sha256 hash;
    must(EVP_DigestFinal_ex(context_, hash.data.data(), nullptr) == 1);
    return hash;
  }
  Sha256 of(ByteView bytes) {
    begin();
    add(bytes.data(), bytes.size());
    return end();
  }
  Sha256 pair(const Sha256& left, const Sha256& right) {
    begin();
    add(left.data.data(), left.data.size());
    add(right.data.data(), right.data.size());
    return end();
  }

 private:
  EVP_MD_CTX* context_;
};

const std::array<std::byte, kLeafBytes> kZeros{};

const Sha256& zero_leaf() {
  static const Sha256 hash = sha256(kZeros);
  return hash;
}

// The root of a tree over `level`, of which there is a power of two. The level is used up.
Sha256 fold(Hasher& hasher, std::span<Sha256> level) {
  while (level.size() > 1) {
    for (std::size_t i = 0; i < level.size() / 2; ++i) level[i] = hasher.pair(level[2 * i], level[2 * i + 1]);
    level = level.first(level.size() / 2);
  }
  return level[0];
}

}  // namespace

Sha256 sha256(ByteView bytes) {
  return Hasher().of(bytes);
}

struct Sha256Stream::State {
  Hasher hasher;
};
Sha256Stream::Sha256Stream() : state_(std::make_unique<State>()) {
  state_->hasher.begin();
}
Sha256Stream::~Sha256Stream() = default;
Sha256Stream::Sha256Stream(Sha256Stream&&) noexcept = default;
Sha256Stream& Sha256Stream::operator=(Sha256Stream&&) noexcept = default;
void Sha256Stream::add(ByteView bytes) {
  state_->hasher.add(bytes.data(), bytes.size());
}
Sha256 Sha256Stream::finish() {
  return state_->hasher.end();
}

ChunkRoot chunk_root(ByteView data, std::uint32_t chunk_bytes) {
  assert(std::has_single_bit(chunk_bytes) && chunk_bytes >= limits::kMinChunkBytes);
  assert(chunk_bytes <= limits::kMaxChunkBytes && data.size() <= chunk_bytes);
  std::array<Sha256, limits::kMaxChunkBytes / kLeafBytes> leaves;
  const std::size_t count = chunk_bytes / kLeafBytes;
  Hasher hasher;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t begin = std::min(i * kLeafBytes, data.size());
    const ByteView used = data.subspan(begin, std::min(kLeafBytes, data.size() - begin));
    if (used.empty()) {
      leaves[i] = zero_leaf();
      continue;
    }
    hasher.begin();
    hasher.add(used.data(), used.size());
    hasher.add(kZeros.data(), kLeafBytes - used.size());
    leaves[i] = hasher.end();
  }
  ChunkRoot root;
  root.data = fold(hasher, std::span(leaves).first(count)).data;
  return root;
}

Sha256 pieces_root(std::span<const ChunkRoot> roots, std::uint32_t chunk_bytes) {
  assert(!roots.empty() && std::has_single_bit(chunk_bytes) && chunk_bytes >= limits::kMinChunkBytes);
  Hasher hasher;
  // Past the end of the file BEP 52 has leaf hashes of zero bytes, not hashes of zero bytes.
  Sha256 missing;
  for (std::uint32_t bytes = kLeafBytes; bytes < chunk_bytes; bytes *= 2)
    missing = hasher.pair(missing, missing);
  std::vector<Sha256> level(std::bit_ceil(roots.size()), missing);
  for (std::size_t i = 0; i < roots.size(); ++i) level[i].data = roots[i].data;
  return fold(hasher, level);
}

}  // namespace p2pw
