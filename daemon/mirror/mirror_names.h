// The objects of a mirror: their names and their small formats. For each channel and publisher key, under CHANNEL/KEY ID/:
//
//   bundles/ID.meta, bundles/ID.bundle   as the records state them; a bundle without its padding
//   records                              the signed records that lead to the newest version here, oldest first, each
//                                        with its length before it (u32, little-endian)
//   newest                               one line that says what `records` leads to: a hint, which saves reading it
//
// Pure. Names are made of ids and of names that were parsed, never of what was read.
#pragma once

#include "protocol/channel_log.h"

namespace p2pw {

inline constexpr std::uint64_t kMaxMirrorRecords = 64u << 20;  // bytes of `records`
inline constexpr std::uint64_t kMaxMirrorHint = 256;

class MirrorNames {
 public:
  MirrorNames(const Channel& channel, const KeyId& publisher) : folder_(channel.str() + "/" + publisher.hex() + "/") {}
  std::string bundle(const BundleId& id) const { return folder_ + "bundles/" + id.hex() + ".bundle"; }
  std::string meta(const BundleId& id) const { return folder_ + "bundles/" + id.hex() + ".meta"; }
  std::string records() const { return folder_ + "records"; }
  std::string newest() const { return folder_ + "newest"; }
  // What a node writes to find out whether it may, and removes again.
  std::string probe(const NodeKey& node) const { return folder_ + "probe-" + node.short_hex(); }

 private:
  std::string folder_;
};

// How far a mirror is: ordered.
struct MirrorPosition {
  Version version;    // newest sealed one; 0: none
  Version anchor;     // its lineage begins here
  Version certified;  // newest certificate
  auto operator<=>(const MirrorPosition&) const = default;

  std::string text() const;                                    // of `newest`
  static Result<MirrorPosition> parse(std::string_view text);  // malformed
};

Bytes encode_records(const std::vector<Bytes>& envelopes);
// Errors: malformed (cut short, or a record of more than limits::kMaxRecordBytes).
Result<std::vector<Bytes>> decode_records(ByteView bytes);

}  // namespace p2pw
