// The publishing end of the diff pipeline: frames are placed in slab order, sealed by the workers, and come out as
// bundles, each as soon as it is full.
#pragma once

#include <functional>

#include "chunker/diff.h"
#include "protocol/sealing.h"

namespace p2pw {

class BundleSink : public FrameSink {
 public:
  // `on_bundle` is called on the thread that runs the diff, in bundle order, before the next frame is taken; its error
  // ends the run. The sealer must outlive the sink.
  BundleSink(const FrameSealer& sealer, BundleSizes sizes, std::function<Status(ClosedBundle&&)> on_bundle);

  // The last bundle, if it holds anything. Call it after the diff.
  Status finish_bundles();
  std::uint32_t bundles() const { return bundles_; }
  // Used bytes and metas of all bundles so far.
  std::uint64_t bytes() const { return bytes_; }

  void place(Frame& frame) override;
  void finish(Frame& frame) override;
  Status take(Frame&& frame) override;

 private:
  Status hand_on(std::optional<ClosedBundle> bundle);

  const FrameSealer& sealer_;
  BundleBuilder builder_;
  std::function<Status(ClosedBundle&&)> on_bundle_;
  std::uint32_t bundles_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace p2pw
