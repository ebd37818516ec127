#include "protocol/record_body.h"

#include <bit>

#include "protocol/limits.h"
#include "protocol/records.pb.h"

namespace p2pw {
namespace {

// The end of the year 9999: later times would overflow the arithmetic that is done with them.
constexpr std::uint64_t kLastMillis = 253'402'300'799'999;

// Collects the first complaint, so that the checks of one body read as a list.
class Shape {
 public:
  explicit Shape(std::string_view what) : what_(what) {}

  void require(bool good, std::string_view complaint) {
    if (!good && error_.empty()) error_ = std::string(what_) + " record: " + std::string(complaint);
  }
  template <class B>
  B blob(const std::string& field, std::string_view name) {
    auto value = B::from(std::string_view(field));
    require(value.has_value(), std::string(name) + " has " + std::to_string(field.size()) + " bytes, not " +
                                   std::to_string(B::kSize));
    return value.value_or(B());
  }
  template <class B>
  B nonzero(const std::string& field, std::string_view name) {
    B value = blob<B>(field, name);
    require(!value.is_zero(), std::string(name) + " is zero");
    return value;
  }
  Version version(std::uint64_t value) {
    require(value != 0, "version 0 does not exist");
    return Version(value);
  }
  std::uint32_t chunk_bytes(std::uint32_t value) {
    require(std::has_single_bit(value) && value >= limits::kMinChunkBytes && value <= limits::kMaxChunkBytes,
            "chunk size " + std::to_string(value) + " is not a power of two from 16 KiB to 4 MiB");
    return value;
  }
  std::uint32_t slabs(std::uint32_t value) {
    require(value < SlabId::kByteSpace, "more slabs than can be numbered");
    return value;
  }
  WallTime time(std::uint64_t ms) {
    require(ms <= kLastMillis, "a time after the year 9999");
    return from_millis(std::min(ms, kLastMillis));
  }
  Result<RecordBody> done(RecordBody body) const {
    if (!error_.empty()) return fail(ErrorCode::malformed, error_);
    return body;
  }

 private:
  std::string_view what_;
  std::string error_;
};

template <class B>
void put(std::string* field, const B& blob) {
  field->assign(blob.text());
}

Result<RecordBody> decode(const wire::Open& open) {
  Shape shape("open");
  OpenRecord out;
  out.version = shape.version(open.version());
  shape.require(open.kind() == wire::KIND_ANCHOR || open.kind() == wire::KIND_DELTA,
                "kind " + std::to_string(open.kind()) + " is not known");
  out.kind = open.kind() == wire::KIND_DELTA ? Kind::delta : Kind::anchor;
  out.parent = Version(open.parent());
  out.salt = shape.nonzero<Salt>(open.salt(), "salt");
  out.secret_id = shape.blob<SecretId>(open.secret_id(), "secret_id");
  out.layout_hash = shape.nonzero<LayoutHash>(open.layout_hash(), "layout_hash");
  out.chunk_bytes = shape.chunk_bytes(open.chunk_bytes());
  out.previous_seal = shape.blob<SealHash>(open.previous_seal(), "previous_seal");
  if (open.has_step()) out.step = open.step();
  out.tensor_slabs = shape.slabs(open.tensor_slabs());
  out.input_bytes = open.input_bytes();
  if (out.kind == Kind::delta) {
    shape.require(out.parent != Version(), "a delta needs a parent");
    shape.require(out.parent < out.version, "the parent is not below the version");
    shape.require(!out.previous_seal.is_zero(), "a delta follows a sealed version, and names none");
    out.parent_table = shape.nonzero<Sha256>(open.parent_table(), "parent_table");
  } else {
    shape.require(out.parent == Version(), "an anchor has no parent");
    shape.require(open.parent_table().empty(), "an anchor has no parent table");
  }
  return shape.done(std::move(out));
}

Result<RecordBody> decode(const wire::Bundle& bundle) {
  Shape shape("bundle");
  BundleRecord out;
  out.run = shape.nonzero<RunId>(bundle.run(), "run");
  out.version = shape.version(bundle.version());
  out.index = BundleIndex(bundle.index());
  shape.require(bundle.index() < limits::kMaxBundles,
                "index " + std::to_string(bundle.index()) + " is too high");
  out.used_bytes = bundle.used_bytes();
  shape.require(out.used_bytes > 0 && out.used_bytes <= limits::kMaxBundleBytes,
                "size " + std::to_string(out.used_bytes) + " is not from 1 byte to 1 GiB");
  out.chunk_bytes = shape.chunk_bytes(bundle.chunk_bytes());
  out.pieces_root = shape.nonzero<Sha256>(bundle.pieces_root(), "pieces_root");
  out.meta_hash = shape.nonzero<Sha256>(bundle.meta_hash(), "meta_hash");
  out.meta_bytes = bundle.meta_bytes();
  shape.require(out.meta_bytes <= limits::kMaxMetaBytes,
                "a meta of " + std::to_string(out.meta_bytes) + " bytes is larger than 16 MiB");
  const std::uint64_t chunks =
      out.chunk_bytes == 0 ? 0 : (out.used_bytes + out.chunk_bytes - 1) / out.chunk_bytes;
  shape.require(out.meta_bytes >= chunks * ChunkRoot::kSize,
                "a meta of " + std::to_string(out.meta_bytes) + " bytes cannot hold the roots of all chunks");
  return shape.done(std::move(out));
}

Result<RecordBody> decode(const wire::Seal& seal) {
  Shape shape("seal");
  SealRecord out;
  out.run = shape.nonzero<RunId>(seal.run(), "run");
  out.version = shape.version(seal.version());
  out.bundles = seal.bundles();
  shape.require(out.bundles <= limits::kMaxBundles, std::to_string(out.bundles) + " bundles are too many");
  out.bundles_hash = shape.nonzero<Sha256>(seal.bundles_hash(), "bundles_hash");
  out.table_hash = shape.nonzero<Sha256>(seal.table_hash(), "table_hash");
  out.byte_slabs = shape.slabs(seal.byte_slabs());
  shape.require(out.byte_slabs > 0, "no byte slab, though each layout has a file table");
  out.tensor_slabs = shape.slabs(seal.tensor_slabs());
  out.previous_seal = shape.blob<SealHash>(seal.previous_seal(), "previous_seal");
  out.changed_elements = seal.changed_elements();
  out.total_elements = seal.total_elements();
  shape.require(out.changed_elements <= out.total_elements, "more elements have changed than there are");
  out.delta_bytes = seal.delta_bytes();
  return shape.done(std::move(out));
}

Result<RecordBody> decode(const wire::Abandon& abandon) {
  Shape shape("abandon");
  AbandonRecord out;
  out.run = shape.nonzero<RunId>(abandon.run(), "run");
  out.version = shape.version(abandon.version());
  return shape.done(std::move(out));
}

Result<RecordBody> decode(const wire::Certify& certify) {
  Shape shape("certify");
  CertifyRecord out;
  out.version = shape.version(certify.version());
  out.seal = shape.nonzero<SealHash>(certify.seal(), "seal");
  out.slab_root = shape.nonzero<Sha256>(certify.slab_root(), "slab_root");
  return shape.done(std::move(out));
}

Result<RecordBody> decode(const wire::Delegate& delegate, WallTime issued) {
  Shape shape("delegate");
  DelegateRecord out;
  out.key.key = shape.nonzero<PublicKey>(delegate.key(), "key");
  out.key.id = shape.blob<KeyId>(delegate.key_id(), "key_id");
  out.expires = shape.time(delegate.expires_ms());
  shape.require(out.expires > issued, "it expires before it is issued");
  return shape.done(std::move(out));
}

Result<RecordBody> decode(const wire::Head& head, WallTime issued) {
  Shape shape("head");
  HeadRecord out;
  out.version = Version(head.version());
  out.seal = shape.blob<SealHash>(head.seal(), "seal");
  shape.require((out.version == Version()) == out.seal.is_zero(), "version and seal do not go together");
  out.expires = shape.time(head.expires_ms());
  shape.require(out.expires > issued, "it expires before it is issued");
  shape.require(out.expires <= issued + limits::kHeadLifetime, "it lives longer than 60 s");
  return shape.done(std::move(out));
}

Result<RecordBody> decode_body(const wire::Record& record, WallTime issued) {
  switch (record.body_case()) {
    case wire::Record::kOpen:
      return decode(record.open());
    case wire::Record::kBundle:
      return decode(record.bundle());
    case wire::Record::kSeal:
      return decode(record.seal());
    case wire::Record::kAbandon:
      return decode(record.abandon());
    case wire::Record::kCertify:
      return decode(record.certify());
    case wire::Record::kDelegate:
      return decode(record.delegate(), issued);
    case wire::Record::kHead:
      return decode(record.head(), issued);
    case wire::Record::BODY_NOT_SET:
      break;
  }
  return fail(ErrorCode::unsupported, "a record of a type that this build does not know: update p2pw");
}

struct Encoder {
  wire::Record& record;

  void operator()(const OpenRecord& open) const {
    wire::Open& out = *record.mutable_open();
    out.set_version(open.version.value());
    out.set_kind(open.kind == Kind::delta ? wire::KIND_DELTA : wire::KIND_ANCHOR);
    out.set_parent(open.parent.value());
    put(out.mutable_salt(), open.salt);
    put(out.mutable_secret_id(), open.secret_id);
    put(out.mutable_layout_hash(), open.layout_hash);
    out.set_chunk_bytes(open.chunk_bytes);
    put(out.mutable_previous_seal(), open.previous_seal);
    out.set_has_step(open.step.has_value());
    out.set_step(open.step.value_or(0));
    out.set_tensor_slabs(open.tensor_slabs);
    if (open.kind == Kind::delta || !open.parent_table.is_zero())
      put(out.mutable_parent_table(), open.parent_table);
    out.set_input_bytes(open.input_bytes);
  }
  void operator()(const BundleRecord& bundle) const {
    wire::Bundle& out = *record.mutable_bundle();
    put(out.mutable_run(), bundle.run);
    out.set_version(bundle.version.value());
    out.set_index(bundle.index.value());
    out.set_used_bytes(bundle.used_bytes);
    out.set_chunk_bytes(bundle.chunk_bytes);
    put(out.mutable_pieces_root(), bundle.pieces_root);
    put(out.mutable_meta_hash(), bundle.meta_hash);
    out.set_meta_bytes(bundle.meta_bytes);
  }
  void operator()(const SealRecord& seal) const {
    wire::Seal& out = *record.mutable_seal();
    put(out.mutable_run(), seal.run);
    out.set_version(seal.version.value());
    out.set_bundles(seal.bundles);
    put(out.mutable_bundles_hash(), seal.bundles_hash);
    put(out.mutable_table_hash(), seal.table_hash);
    out.set_byte_slabs(seal.byte_slabs);
    out.set_tensor_slabs(seal.tensor_slabs);
    put(out.mutable_previous_seal(), seal.previous_seal);
    out.set_changed_elements(seal.changed_elements);
    out.set_total_elements(seal.total_elements);
    out.set_delta_bytes(seal.delta_bytes);
  }
  void operator()(const AbandonRecord& abandon) const {
    put(record.mutable_abandon()->mutable_run(), abandon.run);
    record.mutable_abandon()->set_version(abandon.version.value());
  }
  void operator()(const CertifyRecord& certify) const {
    wire::Certify& out = *record.mutable_certify();
    out.set_version(certify.version.value());
    put(out.mutable_seal(), certify.seal);
    put(out.mutable_slab_root(), certify.slab_root);
  }
  void operator()(const DelegateRecord& delegate) const {
    wire::Delegate& out = *record.mutable_delegate();
    put(out.mutable_key(), delegate.key.key);
    put(out.mutable_key_id(), delegate.key.id);
    out.set_expires_ms(to_millis(delegate.expires));
  }
  void operator()(const HeadRecord& head) const {
    wire::Head& out = *record.mutable_head();
    out.set_version(head.version.value());
    put(out.mutable_seal(), head.seal);
    out.set_expires_ms(to_millis(head.expires));
  }
};

}  // namespace

Bytes encode_record(const PlainRecord& record) {
  wire::Record out;
  out.set_format(kRecordFormat);
  out.set_channel(record.channel.str());
  out.set_issued_ms(to_millis(record.issued));
  std::visit(Encoder{out}, record.body);
  Bytes bytes(out.ByteSizeLong());
  out.SerializeToArray(bytes.data(), static_cast<int>(bytes.size()));
  return bytes;
}

Result<PlainRecord> decode_record(ByteView bytes) {
  wire::Record record;
  if (bytes.size() > limits::kMaxRecordBytes ||
      !record.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return fail(ErrorCode::malformed, "the signed bytes are not a record");
  }
  if (record.format() != kRecordFormat) {
    return fail(ErrorCode::unsupported, "a record of format " + std::to_string(record.format()) +
                                            "; this build knows format " + std::to_string(kRecordFormat) +
                                            " only: update p2pw");
  }
  PlainRecord out;
  auto channel = Channel::parse(record.channel());
  if (!channel) return fail(ErrorCode::malformed, "the record's channel: " + channel.error().message);
  out.channel = std::move(channel).value();
  if (record.issued_ms() > kLastMillis)
    return fail(ErrorCode::malformed, "the record is issued after the year 9999");
  out.issued = from_millis(record.issued_ms());
  P2PW_TRY(out.body, decode_body(record, out.issued));
  return out;
}

}  // namespace p2pw
