// This project's codec: deltas, deltas as `p2pw seed` makes them (parent hashed,
// decoded again, compared and sealed), and anchors.
#include <cstring>

#include "chunker/codec/codec.h"
#include "protocol/sealing.h"
#include "tests/bench/src/competitor.h"

namespace p2pw::bench {
namespace {

class Delta : public Competitor {
 public:
  void encode(std::span<std::byte> before, ByteView after, Dtype dtype, Bytes& out) override {
    digest_ = encoder_.encode_delta(before, after, dtype, out).digest;
  }
  // The digest is computed, as in a slot; comparing 16 bytes more would not show.
  bool decode(ByteView frame, Dtype dtype, std::span<std::byte> slab) override {
    return frame.empty() || decoder_.decode_in_place(frame, dtype, slab).ok();
  }

 protected:
  codec::SlabEncoder encoder_;
  codec::SlabDecoder decoder_;
  Digest digest_;
};

class Published : public Delta {
 public:
  Published() : sealer_(FrameKey::derive(FleetSecret::generate(), {}), {}) {}
  void encode(std::span<std::byte> before, ByteView after, Dtype dtype, Bytes& out) override {
    frame_.clear();
    Digest parent;
    digest_ = encoder_.encode_delta(before, after, dtype, frame_, &parent).digest;
    if (frame_.empty()) return;
    const auto decoded = decoder_.decode_in_place(frame_, dtype, before);
    if (!decoded.ok() || decoded->digest != digest_) std::abort();
    sealer_.seal(BundleIndex(0), FrameIndex(index_++), SlabId::tensor(0), frame_, out);
  }
  bool decode(ByteView frame, Dtype dtype, std::span<std::byte> slab) override {
    (void)frame, (void)dtype, (void)slab;
    return false;
  }

 private:
  FrameSealer sealer_;
  std::uint32_t index_ = 0;
  Bytes frame_;
};

class Anchor : public Delta {
 public:
  void encode(std::span<std::byte>, ByteView after, Dtype dtype, Bytes& out) override { encoder_.encode_anchor(after, dtype, out); }
};

template <class T>
std::unique_ptr<Competitor> make() { return std::make_unique<T>(); }

}  // namespace

std::vector<Entry> our_codecs() {
  return {{"p2pw", make<Delta>, false, true},
          {"p2pw published", make<Published>, false, true},
          {"p2pw anchor", make<Anchor>, false, true}};
}

}  // namespace p2pw::bench
