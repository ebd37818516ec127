// Framing of link messages: u32 header length, u32 payload length (little-endian), a serialized LinkMessage,
// the payload.
//
// FrameReader says where the next bytes belong, so that a payload is decrypted straight into the buffer that
// its receiver will own. Memory grows with the bytes that have come, not with the length that was announced.
// Pure: no sockets, any one thread. Errors: limit (a length above its bound), malformed (an empty or
// unreadable message).
#pragma once

#include <optional>
#include <span>

#include "protocol/ids.h"
#include "protocol/limits.h"

namespace p2pw::wire {
class LinkMessage;
}

namespace p2pw {

struct FrameLimits {
  std::size_t header = limits::kMaxMessageBytes;
  std::size_t payload = limits::kMaxPayloadBytes;
  bool link_messages = true;  // a header that announces a payload is checked before the payload is taken in
};
// Until the peer is proven: one small message and nothing else.
inline constexpr FrameLimits kUnprovenLimits{.header = 4096, .payload = 0, .link_messages = false};

inline constexpr std::size_t kFramePrefixBytes = 8;

struct Frame {
  Bytes header;
  Bytes payload;
};

class FrameReader {
 public:
  explicit FrameReader(FrameLimits limits) : limits_(limits) {}

  // For frames that have not begun yet.
  void set_limits(FrameLimits limits) { limits_ = limits; }

  // Where the next bytes belong; never empty while there is no whole frame.
  std::span<std::byte> writable();
  // `count` bytes have been put there. After an error the reader is of no further use.
  Status commit(std::size_t count);
  // A whole frame, once commit() has completed one. Must be taken before the next writable().
  std::optional<Frame> take();
  // No byte of a further frame has come.
  bool between_frames() const { return part_ == Part::prefix && filled_ == 0; }
  // Bytes of memory in the unfinished frame.
  std::size_t held() const { return frame_.header.size() + frame_.payload.size(); }

 private:
  enum class Part { prefix, header, payload, whole };
  Status start();  // the prefix is complete

  FrameLimits limits_;
  Part part_ = Part::prefix;
  std::size_t filled_ = 0;  // of the current part
  std::size_t header_size_ = 0, payload_size_ = 0;
  std::array<std::byte, kFramePrefixBytes> prefix_{};
  Frame frame_;
};

// Prefix and message, to be followed by `payload_size` bytes. Errors: limit (a message of ours is too large
// to send).
Result<Bytes> frame_head(const wire::LinkMessage& message, std::size_t payload_size);
// The same for bytes that are serialized already (the handshake).
Result<Bytes> frame_head(std::string_view serialized, std::size_t payload_size);

// A message of a known kind with a payload only where that kind has one, of a size that it may have.
Result<wire::LinkMessage> parse_link_message(ByteView header, std::size_t payload_size);

}  // namespace p2pw
