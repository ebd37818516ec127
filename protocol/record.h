// Signed records of a channel's log: made here, verified here, never encoded again.
#pragma once

#include <memory>
#include <variant>

#include "protocol/ids.h"
#include "protocol/signing.h"

namespace p2pw {

inline constexpr std::uint32_t kRecordFormat = 1;

struct OpenRecord {
  Version version;
  Kind kind = Kind::anchor;
  Version parent;  // none for an anchor
  Salt salt;
  SecretId secret_id;
  LayoutHash layout_hash;
  std::uint32_t chunk_bytes = 0;
  SealHash previous_seal;
  std::optional<std::int64_t> step;
  std::uint32_t tensor_slabs = 0;
  Sha256 parent_table;
  std::uint64_t input_bytes = 0;
};

struct BundleRecord {
  RunId run;
  Version version;
  BundleIndex index;
  std::uint64_t used_bytes = 0;
  std::uint32_t chunk_bytes = 0;
  Sha256 pieces_root;
  Sha256 meta_hash;
  std::uint32_t meta_bytes = 0;

  std::uint32_t chunk_count() const {
    return static_cast<std::uint32_t>((used_bytes + chunk_bytes - 1) / chunk_bytes);
  }
  std::uint64_t padded_bytes() const { return std::uint64_t(chunk_count()) * chunk_bytes; }
  // Bytes of chunk `i` that cross links: chunk_bytes, fewer for the last.
  std::uint32_t chunk_used(ChunkIndex i) const {
    std::uint64_t begin = std::uint64_t(i.value()) * chunk_bytes;
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(chunk_bytes, used_bytes - begin));
  }
};

struct SealRecord {
  RunId run;
  Version version;
  std::uint32_t bundles = 0;
  Sha256 bundles_hash;
  Sha256 table_hash;
  std::uint32_t byte_slabs = 0;
  std::uint32_t tensor_slabs = 0;
  SealHash previous_seal;
  std::uint64_t changed_elements = 0;
  std::uint64_t total_elements = 0;
  std::uint64_t delta_bytes = 0;
};

struct AbandonRecord {
  RunId run;
  Version version;
};

struct CertifyRecord {
  Version version;
  SealHash seal;
  Sha256 slab_root;
};

struct DelegateRecord {
  VerifyingKey key;
  WallTime expires;
};

struct HeadRecord {
  Version version;
  SealHash seal;
  WallTime expires;
};

using RecordBody = std::variant<OpenRecord, BundleRecord, SealRecord, AbandonRecord, CertifyRecord, DelegateRecord,
                                HeadRecord>;
std::string_view name_of(const RecordBody& body);  // "open", "bundle", ...

// What was parsed from signed bytes whose signature by a known key has been checked. Only RecordVerifier and
// sign_record() make one. Holds the envelope as received: forward and store that, byte for byte.
class VerifiedRecord {
 public:
  const Channel& channel() const { return channel_; }
  WallTime issued() const { return issued_; }
  const KeyId& signer() const { return signer_; }
  const RecordBody& body() const { return body_; }
  template <class T>
  const T* as() const { return std::get_if<T>(&body_); }

  const Sha256& id() const { return id_; }          // SHA-256 of the signed bytes
  const Bytes& envelope() const { return envelope_; }  // a serialized SignedRecord

 private:
  friend class RecordVerifier;
  VerifiedRecord() = default;
  Channel channel_;
  WallTime issued_;
  KeyId signer_;
  RecordBody body_;
  Sha256 id_;
  Bytes envelope_;
};

// Who may sign what on one channel. `open`, `bundle`, `seal`, `abandon`, `certify` and `delegate` need the publisher
// key; `head` needs the delegate named by the newest accepted `delegate` that has not expired.
class RecordVerifier {
 public:
  RecordVerifier(Channel channel, VerifyingKey publisher);

  // Checks size, signature (before parsing), channel, format and the shape of the body. `now` judges expiry of the
  // delegate. Errors: limit, malformed, untrusted (unknown key or bad signature), unsupported, wrong channel = untrusted.
  Result<VerifiedRecord> verify(ByteView envelope, WallTime now) const;

  // A verified `delegate` allows its key to sign `head` until it expires; a newer one replaces an older one.
  void accept_delegate(const VerifiedRecord& delegate);
  const std::optional<DelegateRecord>& delegate() const { return delegate_; }
  const Channel& channel() const { return channel_; }
  const VerifyingKey& publisher() const { return publisher_; }

 private:
  Channel channel_;
  VerifyingKey publisher_;
  std::optional<DelegateRecord> delegate_;
  WallTime delegate_issued_{};
};

// A serialized SignedRecord, checked to fit limits::kMaxRecordBytes.
Result<Bytes> sign_record(const SigningKey& key, const Channel& channel, WallTime issued, const RecordBody& body);

// The id that a verifier will give to `envelope` (SHA-256 of the signed bytes inside), without trusting it.
Result<Sha256> record_id(ByteView envelope);
// The key that `envelope` says it is signed with, without trusting it.
Result<KeyId> record_signer(ByteView envelope);

template <class Id>
Id id_as(const Sha256& hash) {  // RunId, BundleId, SealHash of a record's id
  Id id;
  id.data = hash.data;
  return id;
}

// Bundle meta, bound by BundleRecord::meta_hash.
struct FrameEntry {
  SlabId slab;
  std::uint64_t offset = 0;  // in the bundle
  std::uint32_t length = 0;  // sealed
  Digest digest;             // of the slab after this frame
};
struct BundleMeta {
  std::vector<ChunkRoot> chunk_roots;
  std::vector<FrameEntry> frames;

  Bytes encode() const;
  // Checks the hash first, then every count, offset and length against the record. Errors: integrity, malformed, limit.
  static Result<BundleMeta> decode(ByteView bytes, const BundleRecord& record);
};

}  // namespace p2pw
