// Bundles on the publisher's side: how large they get, and what is written into one.
#pragma once

#include <vector>

#include "protocol/record.h"

namespace p2pw {

// The chunk size of a version, from the size of the last delta (0: not known): about 512 chunks or more, so that relays
// pass chunks on while they receive the next, within what chunks may be.
std::uint32_t choose_chunk_bytes(std::uint64_t last_delta_bytes);

// When a bundle closes. The first one at one chunk, so that transfer starts at once; later ones double up to a cap of a
// sixteenth of the expected delta, so that several bundles travel over different gateways at the same time; towards the
// expected end they shrink to a quarter of what is left, so that all regions get their last bytes at the same time. A
// version that turns out larger than expected gets larger bundles towards its end, never more than limits::kMaxBundles.
class BundleSizes {
 public:
  // `expected_bytes`: of the whole delta, an estimate; 0 when unknown.
  BundleSizes(std::uint32_t chunk_bytes, std::uint64_t expected_bytes);
  std::uint64_t target(BundleIndex index) const;  // bytes at which bundle `index` closes
  std::uint32_t chunk_bytes() const { return chunk_bytes_; }

 private:
  std::uint32_t chunk_bytes_;
  std::uint64_t cap_;
  std::vector<std::uint64_t> planned_;  // of the bundles up to the expected end
};

// A bundle as its record will state it.
struct ClosedBundle {
  BundleIndex index;
  Bytes bytes;  // used bytes: the sealed frames end to end
  BundleMeta meta;
  Bytes encoded_meta;
  Sha256 meta_hash;
  Sha256 pieces_root;
  std::uint32_t chunk_bytes = 0;

  BundleRecord record(const RunId& run, Version version) const;
};

// Collects the sealed frames of one version, in order, into bundles. One thread.
//
//   place() each frame in slab order as soon as its plain size is known, seal it with the bundle and frame numbers that
//   it got (any thread), add() it in the same order; take what add() closes; finish() for the last one.
class BundleBuilder {
 public:
  explicit BundleBuilder(BundleSizes sizes) : sizes_(sizes) {}

  struct Place {
    BundleIndex bundle;
    FrameIndex frame;
  };
  // The place of the next frame of `sealed_bytes`. Decided before it is sealed, for the nonce is its place.
  Place place(std::size_t sealed_bytes);

  // `sealed` must be the next placed frame. Returns the bundle when this was its last frame.
  std::optional<ClosedBundle> add(Place place, SlabId slab, const Digest& digest, ByteView sealed);
  // The bundle that is still open; nothing when it is empty.
  std::optional<ClosedBundle> finish();

 private:
  bool full(BundleIndex index, std::uint64_t bytes, std::size_t frames) const;
  ClosedBundle close();

  BundleSizes sizes_;
  // Of placing.
  BundleIndex placing_;
  FrameIndex next_frame_;
  std::uint64_t placed_bytes_ = 0;
  // Of filling; placing may be bundles ahead.
  ClosedBundle filling_;
  std::uint64_t hashed_ = 0;  // bytes of filling_ whose chunk roots are known
};

}  // namespace p2pw
