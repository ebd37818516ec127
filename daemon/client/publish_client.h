// The seed's end of the publish socket (protocol/publish.proto): framed messages, sent and received in turn, blocking.
// On the wire: u32 header length, u32 payload length (little-endian), a serialized PublishMessage, the payload.
//
// Threads: send() and receive() may be used by two threads at once, each by one at a time.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>

#include "protocol/ids.h"
#include "protocol/limits.h"

namespace p2pw {

namespace wire {
class PublishMessage;
}

// A bundle meta, or the digests of all slabs of the parent, travel in the header here; a whole bundle is a payload.
inline constexpr std::size_t kMaxPublishHeader = 64u << 20;
inline constexpr std::size_t kMaxPublishPayload = limits::kMaxBundleBytes;

class PublishClient {
 public:
  // `cancelled` is asked while a call waits; a call then ends with interrupted.
  static Result<PublishClient> connect(const std::filesystem::path& socket, std::function<bool()> cancelled = {});
  // On a connected stream socket; for tests and the daemon's side of them.
  static PublishClient adopt(int descriptor, std::function<bool()> cancelled = {});
  ~PublishClient();
  PublishClient(PublishClient&&) noexcept;
  PublishClient& operator=(PublishClient&&) noexcept;

  // Errors: unreachable (the daemon is gone), interrupted; a PublishError that has arrived meanwhile comes first, as the
  // error that it names.
  Status send(const wire::PublishMessage& message, ByteView payload = {});

  // The next message, its payload (if any) in `payload`. A PublishError becomes the error that it names. Errors:
  // unreachable, timed_out, interrupted, malformed, limit.
  Status receive(wire::PublishMessage& message, Bytes& payload, std::chrono::milliseconds patience);

 private:
  explicit PublishClient(int descriptor, std::function<bool()> cancelled);
  Status wait_for(short events, std::chrono::steady_clock::time_point until);
  Status write_all(ByteView bytes);
  Status read_exactly(std::span<std::byte> out, std::chrono::steady_clock::time_point until);
  Status early_error();

  int descriptor_ = -1;
  std::function<bool()> cancelled_;
};

}  // namespace p2pw
