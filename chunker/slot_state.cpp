#include "chunker/slot_state.h"

#include "protocol/limits.h"

namespace p2pw {
namespace {

constexpr std::string_view kMagic = "P2PWSLOT";

class Writer {
 public:
  template <class Int>
  void number(Int value) {
    for (std::size_t i = 0; i < sizeof value; ++i) out_.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
  void raw(ByteView bytes) { out_.insert(out_.end(), bytes.begin(), bytes.end()); }
  Bytes take() && { return std::move(out_); }
  ByteView written() const { return out_; }

 private:
  Bytes out_;
};

// Reads what the caller has made sure is there.
class Reader {
 public:
  explicit Reader(ByteView in) : in_(in) {}
  ByteView raw(std::size_t n) {
    ByteView bytes = in_.first(n);
    in_ = in_.subspan(n);
    return bytes;
  }
  template <class Int>
  Int number() {
    Int value = 0;
    ByteView bytes = raw(sizeof value);
    for (std::size_t i = 0; i < sizeof value; ++i) {
      value = static_cast<Int>(value | std::to_integer<Int>(bytes[i]) << (8 * i));
    }
    return value;
  }
  template <class Blob>
  Blob blob() {
    return *Blob::from(raw(Blob::kSize));
  }
  std::size_t left() const { return in_.size(); }

 private:
  ByteView in_;
};

constexpr std::size_t kFixedBytes = 8 + 4 + 1 + 8 + 3 * 32 + 4 + 4 + 8 + 32;

}  // namespace

std::string_view name_of(SlotName name) { return name == SlotName::a ? "a" : "b"; }

Bytes SlotState::encode() const {
  Writer out;
  out.raw(as_bytes(kMagic));
  out.number(kSlotStateFormat);
  out.number(static_cast<std::uint8_t>(whole ? 1 : 0));
  out.number(base.value());
  out.raw(base_seal.view());
  out.raw(base_table_hash.view());
  out.raw(layout.view());
  out.number(static_cast<std::uint32_t>(byte_digests.size()));
  out.number(static_cast<std::uint32_t>(tensor_digests.size()));
  out.number(target.value());
  out.raw(target_run.view());
  for (const Digest& digest : byte_digests) out.raw(digest.view());
  for (const Digest& digest : tensor_digests) out.raw(digest.view());
  out.raw(sha256(out.written()).view());
  return std::move(out).take();
}

Result<SlotState> SlotState::decode(ByteView bytes) {
  if (bytes.size() < kFixedBytes + 32) return fail(ErrorCode::malformed, "slot state: cut short");
  Reader in(bytes);
  if (as_text(in.raw(8)) != kMagic) return fail(ErrorCode::malformed, "slot state: not a slot state file");
  if (auto format = in.number<std::uint32_t>(); format != kSlotStateFormat) {
    return fail(ErrorCode::unsupported, "slot state: format " + std::to_string(format) + "; this build knows " +
                                            std::to_string(kSlotStateFormat));
  }
  if (sha256(bytes.first(bytes.size() - 32)) != *Sha256::from(bytes.last(32))) {
    return fail(ErrorCode::integrity, "slot state: damaged, its checksum does not match");
  }
  SlotState state;
  state.whole = in.number<std::uint8_t>() == 1;
  state.base = Version(in.number<std::uint64_t>());
  state.base_seal = in.blob<SealHash>();
  state.base_table_hash = in.blob<Sha256>();
  state.layout = in.blob<LayoutHash>();
  std::size_t byte_slabs = in.number<std::uint32_t>(), tensor_slabs = in.number<std::uint32_t>();
  state.target = Version(in.number<std::uint64_t>());
  state.target_run = in.blob<RunId>();
  if (byte_slabs > limits::kMaxSlabs || tensor_slabs > limits::kMaxSlabs) {
    return fail(ErrorCode::limit, "slot state: too many slabs");
  }
  if (in.left() != 16 * (byte_slabs + tensor_slabs) + 32) {
    return fail(ErrorCode::malformed, "slot state: its length does not fit its slabs");
  }
  for (std::size_t i = 0; i < byte_slabs; ++i) state.byte_digests.push_back(in.blob<Digest>());
  for (std::size_t i = 0; i < tensor_slabs; ++i) state.tensor_digests.push_back(in.blob<Digest>());
  return state;
}

}  // namespace p2pw
