#include "daemon/client/publish_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "daemon/client/api.h"
#include "daemon/client/api_client.h"
#include "protocol/publish.pb.h"

namespace p2pw {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kAskCancelledMs = 100;
constexpr std::size_t kPrefix = 8;

void put_u32(std::byte* out, std::size_t value) {
  for (int i = 0; i < 4; ++i) out[i] = static_cast<std::byte>(value >> (8 * i));
}
std::uint32_t get_u32(const std::byte* in) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value |= std::to_integer<std::uint32_t>(in[i]) << (8 * i);
  return value;
}

Error gone(const std::string& why) {
  return fail(ErrorCode::unreachable,
              "p2pwd went away during the publish (" + why + "): this version is dead; start p2pwd and seed again");
}

}  // namespace

PublishClient::PublishClient(int descriptor, std::function<bool()> cancelled)
    : descriptor_(descriptor), cancelled_(std::move(cancelled)) {}
PublishClient::~PublishClient() {
  if (descriptor_ >= 0) ::close(descriptor_);
}
PublishClient::PublishClient(PublishClient&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), cancelled_(std::move(other.cancelled_)) {}
PublishClient& PublishClient::operator=(PublishClient&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(cancelled_, other.cancelled_);
  return *this;
}

PublishClient PublishClient::adopt(int descriptor, std::function<bool()> cancelled) {
  return PublishClient(descriptor, std::move(cancelled));
}

Result<PublishClient> PublishClient::connect(const std::filesystem::path& socket, std::function<bool()> cancelled) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::string path = socket.string();
  if (path.size() >= sizeof address.sun_path) {
    return fail(ErrorCode::unreachable, "the socket path " + path + " is longer than unix sockets allow");
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return fail(ErrorCode::io, std::string("cannot make a socket: ") + std::strerror(errno));
  PublishClient client(descriptor, std::move(cancelled));
  if (::connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return unreachable_error(socket, errno);
  }
  return client;
}

Status PublishClient::wait_for(short events, Clock::time_point until) {
  for (;;) {
    if (cancelled_ && cancelled_()) return fail(ErrorCode::interrupted, "interrupted");
    pollfd entry{descriptor_, events, 0};
    int ready = ::poll(&entry, 1, kAskCancelledMs);
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return gone(std::strerror(errno));
    if (Clock::now() >= until) return fail(ErrorCode::timed_out, "p2pwd did not answer in time: look at its log");
  }
}

Status PublishClient::write_all(ByteView bytes) {
  while (!bytes.empty()) {
    ssize_t put = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(put));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) {
      P2PW_CHECK(wait_for(POLLOUT, Clock::time_point::max()));
    } else {
      P2PW_CHECK(early_error());
      return gone(std::strerror(errno));
    }
  }
  return {};
}

// The daemon says why before it hangs up; that is what the user wants to read.
Status PublishClient::early_error() {
  pollfd entry{descriptor_, POLLIN, 0};
  if (::poll(&entry, 1, 0) <= 0 || (entry.revents & POLLIN) == 0) return {};
  std::byte prefix[kPrefix];
  if (::recv(descriptor_, prefix, kPrefix, MSG_PEEK | MSG_DONTWAIT) != static_cast<ssize_t>(kPrefix)) return {};
  if (get_u32(prefix) > limits::kMaxMessageBytes || get_u32(prefix + 4) != 0) return {};
  Bytes header(kPrefix + get_u32(prefix));
  if (::recv(descriptor_, header.data(), header.size(), MSG_PEEK | MSG_DONTWAIT) != static_cast<ssize_t>(header.size())) {
    return {};
  }
  wire::PublishMessage message;
  if (!message.ParseFromArray(header.data() + kPrefix, static_cast<int>(header.size() - kPrefix))) return {};
  if (!message.has_error()) return {};
  return fail(api::code_from_name(message.error().code()), message.error().message());
}

Status PublishClient::send(const wire::PublishMessage& message, ByteView payload) {
  P2PW_CHECK(early_error());
  std::size_t header_bytes = message.ByteSizeLong();
  if (header_bytes > kMaxPublishHeader || payload.size() > kMaxPublishPayload) {
    return fail(ErrorCode::limit, "a publish message is too large: " + std::to_string(header_bytes) + " + " +
                                      std::to_string(payload.size()) + " bytes");
  }
  Bytes header(kPrefix + header_bytes);
  put_u32(header.data(), header_bytes);
  put_u32(header.data() + 4, payload.size());
  if (!message.SerializeToArray(header.data() + kPrefix, static_cast<int>(header_bytes))) {
    return fail(ErrorCode::failed, "cannot serialize a publish message");
  }
  P2PW_CHECK(write_all(header));
  return write_all(payload);
}

Status PublishClient::read_exactly(std::span<std::byte> out, Clock::time_point until) {
  while (!out.empty()) {
    P2PW_CHECK(wait_for(POLLIN, until));
    ssize_t got = ::recv(descriptor_, out.data(), out.size(), MSG_DONTWAIT);
    if (got > 0) {
      out = out.subspan(static_cast<std::size_t>(got));
    } else if (got == 0) {
      return gone("it closed the connection");
    } else if (errno != EAGAIN && errno != EINTR) {
      return gone(std::strerror(errno));
    }
  }
  return {};
}

Status PublishClient::receive(wire::PublishMessage& message, Bytes& payload, std::chrono::milliseconds patience) {
  auto until = Clock::now() + patience;
  std::byte prefix[kPrefix];
  P2PW_CHECK(read_exactly(prefix, until));
  std::size_t header_bytes = get_u32(prefix), payload_bytes = get_u32(prefix + 4);
  if (header_bytes > kMaxPublishHeader || payload_bytes > kMaxPublishPayload) {
    return fail(ErrorCode::limit, "p2pwd sent a publish message of " + std::to_string(header_bytes) + " + " +
                                      std::to_string(payload_bytes) + " bytes");
  }
  Bytes header(header_bytes);
  P2PW_CHECK(read_exactly(header, until));
  payload.resize(payload_bytes);
  P2PW_CHECK(read_exactly(payload, until));
  if (!message.ParseFromArray(header.data(), static_cast<int>(header.size()))) {
    return fail(ErrorCode::malformed, "p2pwd sent a publish message that does not parse");
  }
  if (message.has_error()) return fail(api::code_from_name(message.error().code()), message.error().message());
  return {};
}

}  // namespace p2pw
