// Well-formed records for tests, each field with a value of its own.
#pragma once

#include <gtest/gtest.h>

#include "protocol/hash.h"
#include "protocol/record.h"

namespace p2pw::testing {

inline const WallTime kNow = from_millis(1'800'000'000'000);

// A blob whose bytes follow from `seed`.
template <class B>
B blob(std::uint8_t seed) {
  B out;
  for (std::size_t i = 0; i < out.data.size(); ++i) out.data[i] = static_cast<std::uint8_t>(seed + 7 * i);
  return out;
}

inline Channel channel(std::string_view name = "policy") {
  return Channel::parse(name).value();
}
inline Region region(std::string_view name) {
  return Region::parse(name).value();
}

inline OpenRecord anchor_open(std::uint64_t version, const SealHash& previous = {}) {
  OpenRecord open;
  open.version = Version(version);
  open.kind = Kind::anchor;
  open.salt = blob<Salt>(static_cast<std::uint8_t>(10 + version));
  open.secret_id = blob<SecretId>(11);
  open.layout_hash = blob<LayoutHash>(12);
  open.chunk_bytes = 16u << 10;
  open.previous_seal = previous;
  open.step = -5;
  open.tensor_slabs = 3;
  open.input_bytes = 1000;
  return open;
}

inline OpenRecord delta_open(std::uint64_t version, std::uint64_t parent, const SealHash& previous,
                             const Sha256& parent_table) {
  OpenRecord open = anchor_open(version, previous);
  open.kind = Kind::delta;
  open.parent = Version(parent);
  open.parent_table = parent_table;
  return open;
}

inline BundleRecord bundle_of(const RunId& run, std::uint64_t version, std::uint32_t index,
                              std::uint64_t used = 40'000) {
  BundleRecord bundle;
  bundle.run = run;
  bundle.version = Version(version);
  bundle.index = BundleIndex(index);
  bundle.used_bytes = used;
  bundle.chunk_bytes = 16u << 10;
  bundle.pieces_root = blob<Sha256>(static_cast<std::uint8_t>(20 + index));
  bundle.meta_hash = blob<Sha256>(static_cast<std::uint8_t>(120 + index));
  bundle.meta_bytes = 500;
  return bundle;
}

inline Sha256 hash_of_bundles(const std::vector<BundleId>& ids) {
  Sha256Stream stream;
  for (const BundleId& id : ids) stream.add(id.view());
  return stream.finish();
}

inline SealRecord seal_of(const RunId& run, std::uint64_t version, const std::vector<BundleId>& bundles,
                          const SealHash& previous, const Sha256& table) {
  SealRecord seal;
  seal.run = run;
  seal.version = Version(version);
  seal.bundles = static_cast<std::uint32_t>(bundles.size());
  seal.bundles_hash = hash_of_bundles(bundles);
  seal.table_hash = table;
  seal.byte_slabs = 2;
  seal.tensor_slabs = 3;
  seal.previous_seal = previous;
  seal.changed_elements = 5;
  seal.total_elements = 500;
  seal.delta_bytes = 41'000;
  return seal;
}

inline Sha256 table_of(std::uint64_t version) {
  return blob<Sha256>(static_cast<std::uint8_t>(60 + version));
}

inline Bytes must_sign(const SigningKey& key, const RecordBody& body, WallTime issued = kNow,
                       const Channel& name = channel()) {
  auto envelope = sign_record(key, name, issued, body);
  EXPECT_TRUE(envelope.ok()) << envelope.error().message;
  return envelope.ok() ? std::move(envelope).value() : Bytes{};
}

}  // namespace p2pw::testing
