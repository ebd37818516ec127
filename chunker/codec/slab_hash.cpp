#include "chunker/codec/slab_hash.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>  // redirects the calls below to the variant for this machine
#endif

#include "chunker/codec/codec.h"

namespace p2pw::codec {
namespace {

Digest to_digest(const XXH128_hash_t& hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  Digest digest;
  std::memcpy(digest.data.data(), canonical.digest, sizeof canonical.digest);
  return digest;
}

}  // namespace

struct SlabHash::State {
  XXH3_state_t hash;
};

SlabHash::SlabHash() : state_(std::make_unique<State>()) { reset(); }
SlabHash::~SlabHash() = default;
SlabHash::SlabHash(SlabHash&&) noexcept = default;

void SlabHash::reset() { XXH3_128bits_reset(&state_->hash); }
void SlabHash::add(ByteView bytes) { XXH3_128bits_update(&state_->hash, bytes.data(), bytes.size()); }
Digest SlabHash::finish() const { return to_digest(XXH3_128bits_digest(&state_->hash)); }

Digest digest_of(ByteView slab) { return to_digest(XXH3_128bits(slab.data(), slab.size())); }

}  // namespace p2pw::codec
