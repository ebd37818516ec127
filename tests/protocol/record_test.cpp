#include "protocol/record.h"

#include <gtest/gtest.h>

#include <chrono>

#include "protocol/limits.h"
#include "protocol/records.pb.h"
#include "tests/protocol/make_records.h"

namespace p2pw {
namespace {

using namespace p2pw::testing;
using std::chrono::seconds;

const RunId kRun = blob<RunId>(1);
const SealHash kSeal = blob<SealHash>(2);
const Sha256 kTable = blob<Sha256>(3);

DelegateRecord delegate_record(const SigningKey& online,
                               WallTime expires = kNow + std::chrono::hours(24 * 30)) {
  return {online.verifying_key(), expires};
}

class RecordTest : public ::testing::Test {
 protected:
  SigningKey publisher_ = SigningKey::generate();
  SigningKey online_ = SigningKey::generate();
  RecordVerifier verifier_{channel(), publisher_.verifying_key()};

  Result<VerifiedRecord> verify(ByteView envelope) const { return verifier_.verify(envelope, kNow); }
  void accept_delegate(WallTime expires = kNow + seconds(1000), WallTime issued = kNow) {
    auto record = verify(must_sign(publisher_, delegate_record(online_, expires), issued));
    ASSERT_TRUE(record.ok()) << record.error().message;
    verifier_.accept_delegate(*record);
  }
  ErrorCode code_of(ByteView envelope) const {
    auto record = verify(envelope);
    EXPECT_FALSE(record.ok());
    return record.ok() ? ErrorCode::failed : record.error().code;
  }
  // Signs bytes that sign_record() would not make.
  Bytes sign_raw(const wire::Record& record, const SigningKey& key) const {
    wire::SignedRecord out;
    out.set_record(record.SerializeAsString());
    out.set_signature(std::string(key.sign(as_bytes(out.record())).text()));
    const std::string text = out.SerializeAsString();
    return Bytes(as_bytes(text).begin(), as_bytes(text).end());
  }
  wire::Record parsed(const RecordBody& body) const {
    wire::SignedRecord out;
    EXPECT_TRUE(out.ParseFromString(std::string(as_text(must_sign(publisher_, body)))));
    wire::Record record;
    EXPECT_TRUE(record.ParseFromString(out.record()));
    return record;
  }
};

TEST_F(RecordTest, EveryFieldComesBack) {
  const OpenRecord open = delta_open(9, 7, kSeal, kTable);
  const auto record = verify(must_sign(publisher_, open));
  ASSERT_TRUE(record.ok()) << record.error().message;
  EXPECT_EQ(record->channel(), channel());
  EXPECT_EQ(record->issued(), kNow);
  EXPECT_EQ(record->signer(), publisher_.verifying_key().id);
  EXPECT_EQ(name_of(record->body()), "open");
  const auto* got = record->as<OpenRecord>();
  ASSERT_NE(got, nullptr);
  EXPECT_EQ(got->version, open.version);
  EXPECT_EQ(got->kind, open.kind);
  EXPECT_EQ(got->parent, open.parent);
  EXPECT_EQ(got->salt, open.salt);
  EXPECT_EQ(got->secret_id, open.secret_id);
  EXPECT_EQ(got->layout_hash, open.layout_hash);
  EXPECT_EQ(got->chunk_bytes, open.chunk_bytes);
  EXPECT_EQ(got->previous_seal, open.previous_seal);
  EXPECT_EQ(got->step, -5);
  EXPECT_EQ(got->tensor_slabs, open.tensor_slabs);
  EXPECT_EQ(got->parent_table, open.parent_table);
  EXPECT_EQ(got->input_bytes, open.input_bytes);

  const auto bundle = verify(must_sign(publisher_, bundle_of(kRun, 9, 4)));
  ASSERT_TRUE(bundle.ok()) << bundle.error().message;
  EXPECT_EQ(bundle->as<BundleRecord>()->index, BundleIndex(4));
  EXPECT_EQ(bundle->as<BundleRecord>()->chunk_count(), 3u);
  EXPECT_EQ(bundle->as<BundleRecord>()->padded_bytes(), 49'152u);
  EXPECT_EQ(bundle->as<BundleRecord>()->chunk_used(ChunkIndex(2)), 40'000u - 32'768u);

  const auto seal = verify(must_sign(publisher_, seal_of(kRun, 9, {blob<BundleId>(1)}, kSeal, kTable)));
  ASSERT_TRUE(seal.ok()) << seal.error().message;
  EXPECT_EQ(seal->as<SealRecord>()->changed_elements, 5u);
  EXPECT_EQ(seal->as<SealRecord>()->delta_bytes, 41'000u);

  EXPECT_TRUE(verify(must_sign(publisher_, AbandonRecord{kRun, Version(9)})).ok());
  EXPECT_TRUE(verify(must_sign(publisher_, CertifyRecord{Version(9), kSeal, kTable})).ok());
  EXPECT_TRUE(verify(must_sign(publisher_, delegate_record(online_))).ok());
}

TEST_F(RecordTest, LargestRecordStaysFarBelowTheLimit) {
  OpenRecord open = delta_open(~0ull, ~0ull - 1, kSeal, kTable);
  open.tensor_slabs = SlabId::kByteSpace - 1;
  open.input_bytes = ~0ull;
  open.step = std::numeric_limits<std::int64_t>::min();
  const Bytes envelope = must_sign(publisher_, open, kNow, channel(std::string(64, 'c')));
  EXPECT_LT(envelope.size(), limits::kMaxRecordBytes / 4);
  EXPECT_TRUE(
      RecordVerifier(channel(std::string(64, 'c')), publisher_.verifying_key()).verify(envelope, kNow).ok());
}

TEST_F(RecordTest, EnvelopeIsKeptAsReceivedAndNamesTheRecord) {
  const Bytes envelope = must_sign(publisher_, anchor_open(1));
  const auto record = verify(envelope);
  ASSERT_TRUE(record.ok());
  EXPECT_EQ(record->envelope(), envelope);
  EXPECT_EQ(record_id(envelope).value(), record->id());
  wire::SignedRecord plain;
  ASSERT_TRUE(plain.ParseFromString(std::string(as_text(envelope)))) << "any protobuf reader reads it";
  EXPECT_EQ(sha256(as_bytes(plain.record())), record->id());
}

TEST_F(RecordTest, TamperingAnyByteIsRefused) {
  const Bytes envelope = must_sign(publisher_, anchor_open(1));
  for (std::size_t i = 0; i < envelope.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      Bytes damaged = envelope;
      damaged[i] ^= static_cast<std::byte>(1 << bit);
      EXPECT_FALSE(verify(damaged).ok()) << "byte " << i << " bit " << bit;
    }
  }
}

TEST_F(RecordTest, CuttingAndLengtheningIsRefused) {
  const Bytes envelope = must_sign(publisher_, anchor_open(1));
  for (std::size_t size = 0; size < envelope.size(); ++size) {
    EXPECT_EQ(code_of(ByteView(envelope).first(size)), ErrorCode::malformed) << size;
  }
  Bytes longer = envelope;
  longer.push_back(std::byte{0});
  EXPECT_EQ(code_of(longer), ErrorCode::malformed);
  // A valid unknown protobuf field changes nothing for protobuf, but would make a second envelope of one
  // record.
  for (std::byte b : {std::byte{0x18}, std::byte{1}}) longer.back() = b, longer.push_back(std::byte{0});
  EXPECT_EQ(code_of(longer), ErrorCode::malformed);
  EXPECT_EQ(code_of(Bytes(limits::kMaxRecordBytes + 1)), ErrorCode::limit);
}

TEST_F(RecordTest, OtherKeysAndChannelsAreRefused) {
  const SigningKey other = SigningKey::generate();
  EXPECT_EQ(code_of(must_sign(other, anchor_open(1))), ErrorCode::untrusted);
  EXPECT_EQ(code_of(must_sign(publisher_, anchor_open(1), kNow, channel("other"))), ErrorCode::untrusted);
}

TEST_F(RecordTest, SignatureIsCheckedBeforeTheBytesAreParsed) {
  wire::SignedRecord garbage;
  garbage.set_record("\xff\xff\xff this is no protobuf");
  garbage.set_signature(std::string(SigningKey::generate().sign(as_bytes(garbage.record())).text()));
  EXPECT_EQ(code_of(as_bytes(garbage.SerializeAsString())), ErrorCode::untrusted);
  garbage.set_signature(std::string(publisher_.sign(as_bytes(garbage.record())).text()));
  EXPECT_EQ(code_of(as_bytes(garbage.SerializeAsString())), ErrorCode::malformed);
}

TEST_F(RecordTest, HeadIsForTheDelegateAndNothingElseIs) {
  const HeadRecord head{Version(3), kSeal, kNow + seconds(60)};
  EXPECT_EQ(code_of(must_sign(online_, head)), ErrorCode::untrusted) << "no delegate yet";
  accept_delegate();
  ASSERT_TRUE(verify(must_sign(online_, head)).ok());
  EXPECT_EQ(verify(must_sign(online_, head))->signer(), online_.verifying_key().id);
  EXPECT_EQ(code_of(must_sign(publisher_, head)), ErrorCode::untrusted);
  EXPECT_EQ(code_of(must_sign(online_, anchor_open(1))), ErrorCode::untrusted);
  EXPECT_EQ(code_of(must_sign(online_, delegate_record(online_))), ErrorCode::untrusted);
}

TEST_F(RecordTest, DelegateExpires) {
  accept_delegate(kNow + seconds(10));
  const Bytes head = must_sign(online_, HeadRecord{Version(3), kSeal, kNow + seconds(60)});
  EXPECT_TRUE(verifier_.verify(head, kNow + seconds(9)).ok());
  EXPECT_EQ(verifier_.verify(head, kNow + seconds(10)).error().code, ErrorCode::untrusted);
}

TEST_F(RecordTest, NewerDelegateReplacesAnOlderOneAndNotTheOtherWayRound) {
  accept_delegate(kNow + seconds(1000), kNow);
  const SigningKey first = std::move(online_);
  online_ = SigningKey::generate();
  accept_delegate(kNow + seconds(1000), kNow + seconds(1));
  const HeadRecord head{Version(3), kSeal, kNow + seconds(60)};
  EXPECT_FALSE(verify(must_sign(first, head)).ok());
  EXPECT_TRUE(verify(must_sign(online_, head)).ok());
  const auto old = verify(must_sign(publisher_, delegate_record(first)));
  ASSERT_TRUE(old.ok());
  verifier_.accept_delegate(*old);  // replayed
  EXPECT_TRUE(verify(must_sign(online_, head)).ok());
}

TEST_F(RecordTest, UnknownFormatsAreNamedAndUnknownFieldsSkipped) {
  wire::Record record = parsed(anchor_open(1));
  record.set_format(7);
  EXPECT_EQ(code_of(sign_raw(record, publisher_)), ErrorCode::unsupported);
  record.set_format(kRecordFormat);
  record.mutable_open()->GetReflection()->MutableUnknownFields(record.mutable_open())->AddVarint(99, 5);
  record.GetReflection()->MutableUnknownFields(&record)->AddLengthDelimited(98, "later");
  EXPECT_TRUE(verify(sign_raw(record, publisher_)).ok());
  record.clear_open();
  EXPECT_EQ(code_of(sign_raw(record, publisher_)), ErrorCode::unsupported) << "a body of a later format";
}

struct BadOpen {
  const char* why;
  void (*spoil)(OpenRecord&);
};
TEST_F(RecordTest, OpenIsCheckedFieldByField) {
  const BadOpen cases[] = {
      {"version 0", [](OpenRecord& o) { o.version = Version(0), o.parent = Version(0); }},
      {"parent above", [](OpenRecord& o) { o.parent = Version(10); }},
      {"parent equal", [](OpenRecord& o) { o.parent = o.version; }},
      {"no parent", [](OpenRecord& o) { o.parent = Version(); }},
      {"no parent table", [](OpenRecord& o) { o.parent_table = {}; }},
      {"no previous seal", [](OpenRecord& o) { o.previous_seal = {}; }},
      {"anchor with a parent", [](OpenRecord& o) { o.kind = Kind::anchor, o.parent_table = {}; }},
      {"anchor with a parent table", [](OpenRecord& o) { o.kind = Kind::anchor, o.parent = Version(); }},
      {"zero salt", [](OpenRecord& o) { o.salt = {}; }},
      {"zero layout", [](OpenRecord& o) { o.layout_hash = {}; }},
      {"odd chunk size", [](OpenRecord& o) { o.chunk_bytes = 20'000; }},
      {"small chunk size", [](OpenRecord& o) { o.chunk_bytes = 8u << 10; }},
      {"large chunk size", [](OpenRecord& o) { o.chunk_bytes = 8u << 20; }},
      {"zero chunk size", [](OpenRecord& o) { o.chunk_bytes = 0; }},
      {"too many slabs", [](OpenRecord& o) { o.tensor_slabs = SlabId::kByteSpace; }},
  };
  for (const BadOpen& c : cases) {
    OpenRecord open = delta_open(9, 7, kSeal, kTable);
    ASSERT_TRUE(sign_record(publisher_, channel(), kNow, open).ok());
    c.spoil(open);
    const auto result = sign_record(publisher_, channel(), kNow, open);
    ASSERT_FALSE(result.ok()) << c.why;
    EXPECT_EQ(result.error().code, ErrorCode::malformed) << c.why;
  }
}

struct BadBundle {
  const char* why;
  void (*spoil)(BundleRecord&);
};
TEST_F(RecordTest, BundleIsCheckedFieldByField) {
  const BadBundle cases[] = {
      {"no run", [](BundleRecord& b) { b.run = {}; }},
      {"version 0", [](BundleRecord& b) { b.version = Version(); }},
      {"index", [](BundleRecord& b) { b.index = BundleIndex(limits::kMaxBundles); }},
      {"empty", [](BundleRecord& b) { b.used_bytes = 0; }},
      {"huge", [](BundleRecord& b) { b.used_bytes = limits::kMaxBundleBytes + 1; }},
      {"chunk size", [](BundleRecord& b) { b.chunk_bytes = 0; }},
      {"root", [](BundleRecord& b) { b.pieces_root = {}; }},
      {"meta hash", [](BundleRecord& b) { b.meta_hash = {}; }},
      {"meta too large", [](BundleRecord& b) { b.meta_bytes = limits::kMaxMetaBytes + 1; }},
      {"meta too small for its roots", [](BundleRecord& b) { b.meta_bytes = 3 * 32 - 1; }},
  };
  for (const BadBundle& c : cases) {
    BundleRecord bundle = bundle_of(kRun, 9, 0);
    ASSERT_TRUE(sign_record(publisher_, channel(), kNow, bundle).ok());
    c.spoil(bundle);
    EXPECT_FALSE(sign_record(publisher_, channel(), kNow, bundle).ok()) << c.why;
  }
}

TEST_F(RecordTest, OtherBodiesAreChecked) {
  const auto refused = [&](const RecordBody& body) {
    return !sign_record(publisher_, channel(), kNow, body).ok();
  };
  SealRecord seal = seal_of(kRun, 9, {}, kSeal, kTable);
  EXPECT_FALSE(refused(seal)) << "a delta without changes has no bundle";
  seal.changed_elements = seal.total_elements + 1;
  EXPECT_TRUE(refused(seal));
  seal = seal_of(kRun, 9, {}, kSeal, kTable);
  seal.byte_slabs = 0;
  EXPECT_TRUE(refused(seal));
  EXPECT_TRUE(refused(AbandonRecord{RunId(), Version(9)}));
  EXPECT_TRUE(refused(CertifyRecord{Version(9), SealHash(), kTable}));
  EXPECT_TRUE(refused(DelegateRecord{online_.verifying_key(), kNow}));
  EXPECT_TRUE(refused(HeadRecord{Version(3), SealHash(), kNow + seconds(60)}));
  EXPECT_TRUE(refused(HeadRecord{Version(0), kSeal, kNow + seconds(60)}));
  EXPECT_FALSE(refused(HeadRecord{Version(0), SealHash(), kNow + seconds(60)})) << "nothing published yet";
  EXPECT_TRUE(refused(HeadRecord{Version(3), kSeal, kNow + seconds(61)}))
      << "it could not be told from frozen";
  EXPECT_TRUE(refused(HeadRecord{Version(3), kSeal, kNow})) << "expired at once";
}

TEST_F(RecordTest, WrongLengthsOfByteFieldsAreRefused) {
  wire::Record record = parsed(anchor_open(1));
  for (std::string* field :
       {record.mutable_open()->mutable_salt(), record.mutable_open()->mutable_secret_id(),
        record.mutable_open()->mutable_layout_hash(), record.mutable_open()->mutable_previous_seal()}) {
    const std::string good = *field;
    for (const std::string& bad : {good.substr(1), good + "x", std::string()}) {
      *field = bad;
      EXPECT_EQ(code_of(sign_raw(record, publisher_)), ErrorCode::malformed);
    }
    *field = good;
  }
  EXPECT_TRUE(verify(sign_raw(record, publisher_)).ok());
  record.mutable_open()->set_kind(static_cast<wire::Kind>(3));
  EXPECT_EQ(code_of(sign_raw(record, publisher_)), ErrorCode::malformed);
  record.mutable_open()->set_kind(wire::KIND_ANCHOR);
  record.set_issued_ms(~0ull);
  EXPECT_EQ(code_of(sign_raw(record, publisher_)), ErrorCode::malformed);
  record.set_issued_ms(1);
  record.set_channel("../etc");
  EXPECT_EQ(code_of(sign_raw(record, publisher_)), ErrorCode::malformed);
}

}  // namespace
}  // namespace p2pw
