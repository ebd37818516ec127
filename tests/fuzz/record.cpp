// Records and bundle metas. The first byte chooses the decoder: an envelope as it comes over a link, the signed bytes
// inside one, or a bundle meta (bound by a record that fits it as far as possible, so that the decoder is reached).
#include "protocol/record.h"

#include <cstdlib>

#include "protocol/hash.h"
#include "protocol/limits.h"
#include "protocol/record_body.h"
#include "protocol/records.pb.h"

namespace p2pw {
namespace {

void must(bool good) {
  if (!good) std::abort();
}

void fuzz_envelope(ByteView bytes) {
  static const SigningKey key = SigningKey::generate();
  static const RecordVerifier verifier(Channel::parse("policy").value(), key.verifying_key());
  must(!verifier.verify(bytes, from_millis(1)).ok());  // signed by nobody
  (void)record_id(bytes);
}

// What is accepted survives being written and read again.
void fuzz_record(ByteView bytes) {
  const auto record = decode_record(bytes);
  if (!record) return;
  const Bytes written = encode_record(*record);
  const auto again = decode_record(written);
  must(again.ok() && encode_record(*again) == written);
}

void fuzz_meta(ByteView bytes) {
  BundleRecord record;
  record.version = Version(1);
  record.chunk_bytes = limits::kMinChunkBytes;
  record.meta_bytes = static_cast<std::uint32_t>(bytes.size());
  record.meta_hash = sha256(bytes);
  record.used_bytes = 1;
  wire::BundleMeta plain;
  if (plain.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    std::uint64_t used = 0;
    for (std::uint32_t length : plain.frame_lengths()) used += length;
    if (used == 0 || used > limits::kMaxBundleBytes) return;
    record.used_bytes = used;
    std::vector<ChunkRoot> roots;
    const std::string_view text = plain.chunk_roots();
    for (std::size_t at = 0; at + 32 <= text.size(); at += 32) roots.push_back(*ChunkRoot::from(text.substr(at, 32)));
    if (!roots.empty()) record.pieces_root = pieces_root(roots, record.chunk_bytes);
  }
  const auto meta = BundleMeta::decode(bytes, record);
  if (!meta) return;
  must(meta->chunk_roots.size() == record.chunk_count());
  std::uint64_t offset = 0;
  for (const FrameEntry& frame : meta->frames) {
    must(frame.offset == offset);
    offset += frame.length;
  }
  must(offset == record.used_bytes);
}

}  // namespace
}  // namespace p2pw

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const p2pw::ByteView bytes = std::as_bytes(std::span(data + 1, size - 1));
  switch (data[0] % 3) {
    case 0: p2pw::fuzz_envelope(bytes); break;
    case 1: p2pw::fuzz_record(bytes); break;
    case 2: p2pw::fuzz_meta(bytes); break;
  }
  return 0;
}
