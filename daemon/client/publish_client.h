// The seed's end of the publish socket (protocol/publish.proto): framed messages, sent and received in turn, blocking.
// On the wire: u32 header length, u32 payload length (little-endian), a serialized PublishMessage, the payload.
//
// One thread at a time.
#pragma once

#include <chrono>
#include <deque>
#include <filesystem>
#include <functional>
#include <optional>

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
  // `cancelled` is asked while a call waits; a call then ends with interrupted. A message that is half sent gets two
  // seconds more, so that another one can follow it.
  static Result<PublishClient> connect(const std::filesystem::path& socket, std::function<bool()> cancelled = {});
  // On a connected stream socket; for tests and the daemon's side of them.
  static PublishClient adopt(int descriptor, std::function<bool()> cancelled = {});
  ~PublishClient();
  PublishClient(PublishClient&&) noexcept;
  PublishClient& operator=(PublishClient&&) noexcept;

  // What the daemon has said meanwhile is kept for receive(); when it is a PublishError, that is the answer. Errors:
  // that, unreachable (the daemon is gone), interrupted, limit.
  Status send(const wire::PublishMessage& message, ByteView payload = {});

  // From now on calls wait for two seconds at most and ask nobody: for the last word after Ctrl-C.
  void stop_asking();

  // The next message, its payload (if any) in `payload`. A PublishError becomes the error that it names. Errors:
  // unreachable, timed_out, interrupted, malformed, limit.
  Status receive(wire::PublishMessage& message, Bytes& payload, std::chrono::milliseconds patience);

 private:
  using Deadline = std::chrono::steady_clock::time_point;
  explicit PublishClient(int descriptor, std::function<bool()> cancelled);
  Status wait_for(short events, Deadline until);
  Status write_all(ByteView bytes);
  void pump();  // reads what is there, up to the largest message
  struct Message {
    Bytes header, payload;
  };
  Result<bool> take(Message& message);  // false: not whole yet
  Status check_arrived();

  int descriptor_ = -1;
  std::function<bool()> cancelled_;
  Bytes inbox_;                     // read and not yet parsed
  std::size_t inbox_start_ = 0;
  std::optional<Deadline> last_word_;  // set by stop_asking() and by Ctrl-C in the middle of a message
  bool broken_ = false;             // half a message was sent
  bool closed_ = false;             // the daemon has hung up
  std::deque<Message> arrived_;     // parsed while sending
};

}  // namespace p2pw
