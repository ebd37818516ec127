#include "chunker/bundle_sink.h"

namespace p2pw {

BundleSink::BundleSink(const FrameSealer& sealer, BundleSizes sizes, std::function<Status(ClosedBundle&&)> on_bundle)
    : sealer_(sealer), builder_(sizes), on_bundle_(std::move(on_bundle)) {}

// Placing and filling touch different parts of the builder, so the worker that places and the thread that takes need no
// common lock.
void BundleSink::place(Frame& frame) { frame.place = builder_.place(frame.bytes.size() + kSealOverhead); }

void BundleSink::finish(Frame& frame) {
  Bytes sealed;
  sealed.reserve(frame.bytes.size() + kSealOverhead);
  sealer_.seal(frame.place.bundle, frame.place.frame, frame.slab, frame.bytes, sealed);
  frame.bytes = std::move(sealed);
}

Status BundleSink::take(Frame&& frame) {
  return hand_on(builder_.add(frame.place, frame.slab, frame.digest, frame.bytes));
}

Status BundleSink::finish_bundles() { return hand_on(builder_.finish()); }

Status BundleSink::hand_on(std::optional<ClosedBundle> bundle) {
  if (!bundle) return {};
  ++bundles_;
  bytes_ += bundle->bytes.size() + bundle->encoded_meta.size();
  return on_bundle_(std::move(*bundle));
}

}  // namespace p2pw
