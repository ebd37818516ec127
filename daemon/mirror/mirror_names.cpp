#include "daemon/mirror/mirror_names.h"

#include <charconv>

#include "protocol/limits.h"

namespace p2pw {
namespace {

constexpr std::string_view kHintPrefix = "p2pw-mirror-1";

}  // namespace

std::string MirrorPosition::text() const {
  return std::string(kHintPrefix) + " " + std::to_string(version.value()) + " " + std::to_string(anchor.value()) + " " +
         std::to_string(certified.value()) + "\n";
}

Result<MirrorPosition> MirrorPosition::parse(std::string_view text) {
  const Error wrong = fail(ErrorCode::malformed, "`newest` is not \"p2pw-mirror-1 VERSION ANCHOR CERTIFIED\"");
  if (!text.starts_with(kHintPrefix) || !text.ends_with('\n')) return wrong;
  text.remove_prefix(kHintPrefix.size());
  text.remove_suffix(1);
  std::uint64_t numbers[3] = {};
  for (std::uint64_t& number : numbers) {
    if (!text.starts_with(' ')) return wrong;
    text.remove_prefix(1);
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc()) return wrong;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  }
  if (!text.empty()) return wrong;
  return MirrorPosition{Version(numbers[0]), Version(numbers[1]), Version(numbers[2])};
}

Bytes encode_records(const std::vector<Bytes>& envelopes) {
  Bytes out;
  for (const Bytes& envelope : envelopes) {
    for (int i = 0; i < 4; ++i) out.push_back(static_cast<std::byte>(envelope.size() >> (8 * i)));
    out.insert(out.end(), envelope.begin(), envelope.end());
  }
  return out;
}

Result<std::vector<Bytes>> decode_records(ByteView bytes) {
  std::vector<Bytes> out;
  while (!bytes.empty()) {
    if (bytes.size() < 4) return fail(ErrorCode::malformed, "`records` ends within a length");
    std::uint32_t size = 0;
    for (std::size_t i = 0; i < 4; ++i) size |= std::to_integer<std::uint32_t>(bytes[i]) << (8 * i);
    bytes = bytes.subspan(4);
    if (size == 0 || size > limits::kMaxRecordBytes || size > bytes.size()) {
      return fail(ErrorCode::malformed, "`records` holds a record of " + std::to_string(size) + " bytes, of which " +
                                            std::to_string(bytes.size()) + " are there; at most " +
                                            std::to_string(limits::kMaxRecordBytes) + " are allowed");
    }
    out.emplace_back(bytes.begin(), bytes.begin() + size);
    bytes = bytes.subspan(size);
  }
  return out;
}

}  // namespace p2pw
