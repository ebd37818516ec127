#include "protocol/record.h"

#include "protocol/hash.h"
#include "protocol/limits.h"
#include "protocol/record_body.h"

namespace p2pw {
namespace {

// wire::SignedRecord by hand: two fields, in order, nothing else. It is read before any signature is checked,
// so it is kept this small, and one record has exactly one envelope.
constexpr std::byte kRecordTag{0x0a};     // field 1, length-delimited
constexpr std::byte kSignatureTag{0x12};  // field 2, length-delimited

struct Envelope {
  ByteView record;
  Signature signature;
};

Result<Envelope> open_envelope(ByteView bytes) {
  const Error bad = fail(ErrorCode::malformed, "not a signed record");
  if (bytes.size() > limits::kMaxRecordBytes) {
    return fail(ErrorCode::limit,
                "a record of " + std::to_string(bytes.size()) + " bytes is larger than 4 KiB");
  }
  if (bytes.size() < 2 || bytes[0] != kRecordTag) return bad;
  // The length is a varint of at most two bytes, in its shortest form: 4096 < 2^14.
  std::size_t length = std::to_integer<std::size_t>(bytes[1]), at = 2;
  if (length >= 0x80) {
    if (bytes.size() < 3) return bad;
    const auto high = std::to_integer<std::size_t>(bytes[2]);
    if (high == 0 || high >= 0x80) return bad;
    length = (length & 0x7f) | high << 7;
    at = 3;
  }
  if (length == 0 || bytes.size() != at + length + 2 + Signature::kSize) return bad;
  const ByteView tail = bytes.subspan(at + length);
  if (tail[0] != kSignatureTag || std::to_integer<std::size_t>(tail[1]) != Signature::kSize) return bad;
  return Envelope{bytes.subspan(at, length), *Signature::from(tail.subspan(2))};
}

Bytes make_envelope(ByteView record, const Signature& signature) {
  Bytes out{kRecordTag};
  std::size_t length = record.size();
  if (length >= 0x80) {
    out.push_back(static_cast<std::byte>((length & 0x7f) | 0x80));
    length >>= 7;
  }
  out.push_back(static_cast<std::byte>(length));
  out.insert(out.end(), record.begin(), record.end());
  out.push_back(kSignatureTag);
  out.push_back(static_cast<std::byte>(Signature::kSize));
  const ByteView tail = signature.view();
  out.insert(out.end(), tail.begin(), tail.end());
  return out;
}

}  // namespace

std::string_view name_of(const RecordBody& body) {
  static constexpr std::string_view kNames[] = {"open",    "bundle",   "seal", "abandon",
                                                "certify", "delegate", "head"};
  static_assert(std::size(kNames) == std::variant_size_v<RecordBody>);
  return kNames[body.index()];
}

RecordVerifier::RecordVerifier(Channel channel, VerifyingKey publisher)
    : channel_(std::move(channel)), publisher_(publisher) {}

Result<VerifiedRecord> RecordVerifier::verify(ByteView envelope, WallTime now) const {
  P2PW_TRY(const Envelope opened, open_envelope(envelope));
  const bool by_publisher = publisher_.verify(opened.record, opened.signature);
  const bool by_delegate =
      !by_publisher && delegate_ && delegate_->key.verify(opened.record, opened.signature);
  if (!by_publisher && !by_delegate) {
    return fail(ErrorCode::untrusted, "a record for channel " + channel_.str() +
                                          " is signed neither by the publisher's key " + publisher_.line() +
                                          " nor by its delegate, or was changed on the way");
  }
  P2PW_TRY(PlainRecord plain, decode_record(opened.record));
  if (plain.channel != channel_) {
    return fail(ErrorCode::untrusted, "a record of channel " + plain.channel.str() + " where one of " +
                                          channel_.str() + " was expected");
  }
  const std::string name(name_of(plain.body));
  if (std::holds_alternative<HeadRecord>(plain.body) != by_delegate) {
    return fail(
        ErrorCode::untrusted,
        "a " + name + " record of channel " + channel_.str() + " is signed by " +
            (by_delegate ? "the delegate, who may sign head only" : "the publisher instead of the delegate"));
  }
  if (by_delegate && now >= delegate_->expires) {
    return fail(ErrorCode::untrusted,
                "the delegate of channel " + channel_.str() +
                    " has expired: `p2pw seed` or `p2pw init` on the trainer renews it");
  }
  VerifiedRecord record;
  record.channel_ = std::move(plain.channel);
  record.issued_ = plain.issued;
  record.signer_ = by_publisher ? publisher_.id : delegate_->key.id;
  record.body_ = std::move(plain.body);
  record.id_ = sha256(opened.record);
  record.envelope_.assign(envelope.begin(), envelope.end());
  return record;
}

void RecordVerifier::accept_delegate(const VerifiedRecord& record) {
  const auto* delegate = record.as<DelegateRecord>();
  if (delegate == nullptr || record.channel() != channel_ || record.signer() != publisher_.id) return;
  if (delegate_ && record.issued() <= delegate_issued_) return;
  delegate_ = *delegate;
  delegate_issued_ = record.issued();
}

Result<Bytes> sign_record(const SigningKey& key, const Channel& channel, WallTime issued,
                          const RecordBody& body) {
  const Bytes record = encode_record({channel, issued, body});
  // What no verifier would accept is not signed.
  P2PW_CHECK(decode_record(record));
  Bytes envelope = make_envelope(record, key.sign(record));
  if (envelope.size() > limits::kMaxRecordBytes) {
    return fail(ErrorCode::limit, "a " + std::string(name_of(body)) + " record is larger than 4 KiB");
  }
  return envelope;
}

Result<Sha256> record_id(ByteView envelope) {
  P2PW_TRY(const Envelope opened, open_envelope(envelope));
  return sha256(opened.record);
}

Result<KeyId> record_signer(ByteView envelope) {
  P2PW_TRY(const Envelope opened, open_envelope(envelope));
  return signer_of(opened.signature);
}

}  // namespace p2pw
