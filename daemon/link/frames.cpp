#include "daemon/link/frames.h"

#include <algorithm>

#include "protocol/links.pb.h"

namespace p2pw {
namespace {

constexpr std::size_t kGrowth = 64u << 10;

std::uint32_t load_le32(const std::byte* bytes) {
  std::uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<std::uint32_t>(bytes[i]);
  return value;
}

void append_le32(Bytes& out, std::size_t value) {
  for (int i = 0; i < 4; ++i) out.push_back(static_cast<std::byte>(value >> (8 * i)));
}

std::size_t max_payload(const wire::LinkMessage& message) {
  switch (message.body_case()) {
    case wire::LinkMessage::kChunk:
      return limits::kMaxChunkBytes;
    case wire::LinkMessage::kPadding:
      return limits::kMaxPaddingBytes;
    case wire::LinkMessage::kSlab:
      return limits::kSlabBytes;
    case wire::LinkMessage::kTable:
    case wire::LinkMessage::kHashes:
    case wire::LinkMessage::kMeta:
      return limits::kMaxMetaBytes;
    default:
      return 0;
  }
}

}  // namespace

std::span<std::byte> FrameReader::writable() {
  switch (part_) {
    case Part::prefix:
      return std::span(prefix_).subspan(filled_);
    case Part::header:
      return std::span(frame_.header).subspan(filled_);
    case Part::payload:
      if (filled_ == frame_.payload.size()) {
        frame_.payload.resize(std::min(payload_size_, filled_ + kGrowth));
      }
      return std::span(frame_.payload).subspan(filled_);
    case Part::whole:
      break;
  }
  return {};
}

Status FrameReader::commit(std::size_t count) {
  filled_ += count;
  if (part_ == Part::prefix && filled_ == kFramePrefixBytes) P2PW_CHECK(start());
  if (part_ == Part::header && filled_ == header_size_) {
    if (limits_.link_messages && payload_size_ > 0) {
      P2PW_TRY([[maybe_unused]] const auto message, parse_link_message(frame_.header, payload_size_));
    }
    part_ = Part::payload;
    filled_ = 0;
    frame_.payload.reserve(payload_size_);
  }
  if (part_ == Part::payload && filled_ == payload_size_) part_ = Part::whole;
  return {};
}

Status FrameReader::start() {
  header_size_ = load_le32(prefix_.data());
  payload_size_ = load_le32(prefix_.data() + 4);
  if (header_size_ > limits_.header || payload_size_ > limits_.payload) {
    return fail(ErrorCode::limit, "a message of " + std::to_string(header_size_) + " + " +
                                      std::to_string(payload_size_) + " bytes; allowed are " +
                                      std::to_string(limits_.header) + " + " +
                                      std::to_string(limits_.payload));
  }
  if (header_size_ == 0) return fail(ErrorCode::malformed, "a message without a header");
  frame_ = Frame{};
  frame_.header.resize(header_size_);
  part_ = Part::header;
  filled_ = 0;
  return {};
}

std::optional<Frame> FrameReader::take() {
  if (part_ != Part::whole) return std::nullopt;
  part_ = Part::prefix;
  filled_ = 0;
  return std::exchange(frame_, Frame{});
}

Result<Bytes> frame_head(std::string_view serialized, std::size_t payload_size) {
  if (serialized.size() > limits::kMaxMessageBytes || payload_size > limits::kMaxPayloadBytes) {
    return fail(ErrorCode::limit, "a message of " + std::to_string(serialized.size()) + " + " +
                                      std::to_string(payload_size) + " bytes is too large for a link");
  }
  Bytes head;
  head.reserve(kFramePrefixBytes + serialized.size());
  append_le32(head, serialized.size());
  append_le32(head, payload_size);
  const ByteView body = as_bytes(serialized);
  head.insert(head.end(), body.begin(), body.end());
  return head;
}

Result<Bytes> frame_head(const wire::LinkMessage& message, std::size_t payload_size) {
  return frame_head(message.SerializeAsString(), payload_size);
}

Result<wire::LinkMessage> parse_link_message(ByteView header, std::size_t payload_size) {
  wire::LinkMessage message;
  if (header.size() > limits::kMaxMessageBytes) return fail(ErrorCode::limit, "a message header is too long");
  if (!message.ParseFromArray(header.data(), static_cast<int>(header.size()))) {
    return fail(ErrorCode::malformed, "a message that cannot be read");
  }
  if (message.body_case() == wire::LinkMessage::BODY_NOT_SET) {
    return fail(ErrorCode::malformed, "a message of a kind that this build does not know");
  }
  if (payload_size > max_payload(message)) {
    return fail(ErrorCode::malformed, "a message with " + std::to_string(payload_size) +
                                          " bytes of payload, more than its kind may have");
  }
  return message;
}

}  // namespace p2pw
