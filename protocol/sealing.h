// Sealing of frames: XChaCha20-Poly1305 (subkeys by libsodium, bulk by OpenSSL). One key for each run of a version, derived
// from the fleet secret; the nonce is the place of the frame; what the frame is for is authenticated with it, so a frame
// decodes nowhere else.
#pragma once

#include "protocol/ids.h"

namespace p2pw {

// 32 bytes with an id, shared by all nodes of a fleet. Wiped on destruction; copies are explicit.
class FleetSecret {
 public:
  static FleetSecret generate();
  static Result<FleetSecret> parse(std::string_view file);  // what file() wrote
  std::string file() const;
  FleetSecret clone() const;
  ~FleetSecret();
  FleetSecret(FleetSecret&&) noexcept;
  FleetSecret& operator=(FleetSecret&&) noexcept;
  FleetSecret(const FleetSecret&) = delete;

  const SecretId& id() const { return id_; }
  std::span<const std::uint8_t, 32> raw() const { return secret_; }

 private:
  FleetSecret() = default;
  SecretId id_;
  std::array<std::uint8_t, 32> secret_{};
};

// What every frame of one run is bound to.
struct RunContext {
  Channel channel;
  Version version;
  Version parent;
  Kind kind = Kind::anchor;
  Salt salt;
};

// The key of one run. A `seed` process gets this one from its daemon, never the fleet secret.
class FrameKey {
 public:
  static FrameKey derive(const FleetSecret& secret, const RunContext& run);
  static std::optional<FrameKey> from(ByteView raw32);
  ByteView raw() const { return std::as_bytes(std::span(key_)); }
  ~FrameKey();
  FrameKey(const FrameKey&) = default;
  FrameKey& operator=(const FrameKey&) = default;

 private:
  FrameKey() = default;
  std::array<std::uint8_t, 32> key_{};
};

inline constexpr std::size_t kSealOverhead = 16;

// Seals and opens the frames of one run. Immutable: any thread.
class FrameSealer {
 public:
  FrameSealer(FrameKey key, RunContext run);
  // Appends plain.size() + kSealOverhead bytes to `out`.
  void seal(BundleIndex bundle, FrameIndex frame, SlabId slab, ByteView plain, Bytes& out) const;
  // Errors: integrity (flipped byte, wrong place, wrong key). `out` is replaced.
  Status open(BundleIndex bundle, FrameIndex frame, SlabId slab, ByteView sealed, Bytes& out) const;
  const RunContext& run() const { return run_; }

 private:
  FrameKey key_;
  RunContext run_;
};

}  // namespace p2pw
