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
constexpr std::chrono::seconds kLastWord{2};
constexpr std::size_t kPrefix = 8;
constexpr std::size_t kReadBytes = 64u << 10;

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

Status parse(const Bytes& header, wire::PublishMessage& message) {
  if (!message.ParseFromArray(header.data(), static_cast<int>(header.size()))) {
    return fail(ErrorCode::malformed, "p2pwd sent a publish message that does not parse");
  }
  if (message.has_error()) return fail(api::code_from_name(message.error().code()), message.error().message());
  return {};
}

}  // namespace

PublishClient::PublishClient(int descriptor, std::function<bool()> cancelled)
    : descriptor_(descriptor), cancelled_(std::move(cancelled)) {}
PublishClient::~PublishClient() {
  if (descriptor_ >= 0) ::close(descriptor_);
}
PublishClient::PublishClient(PublishClient&& other) noexcept { *this = std::move(other); }
PublishClient& PublishClient::operator=(PublishClient&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(cancelled_, other.cancelled_);
  std::swap(inbox_, other.inbox_);
  std::swap(inbox_start_, other.inbox_start_);
  std::swap(last_word_, other.last_word_);
  std::swap(broken_, other.broken_);
  std::swap(closed_, other.closed_);
  std::swap(arrived_, other.arrived_);
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

Status PublishClient::wait_for(short events, Deadline until) {
  for (;;) {
    if (!last_word_ && cancelled_ && cancelled_()) return fail(ErrorCode::interrupted, "interrupted");
    if (last_word_ && Clock::now() >= *last_word_) return fail(ErrorCode::interrupted, "interrupted");
    pollfd entry{descriptor_, events, 0};
    int ready = ::poll(&entry, 1, kAskCancelledMs);
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return gone(std::strerror(errno));
    if (Clock::now() >= until) return fail(ErrorCode::timed_out, "p2pwd did not answer in time: look at its log");
  }
}

void PublishClient::pump() {
  if (inbox_start_ == inbox_.size()) {
    inbox_.clear();
    inbox_start_ = 0;
  }
  while (!closed_ && inbox_.size() < kMaxPublishHeader + limits::kMaxPayloadBytes) {
    std::size_t held = inbox_.size();
    inbox_.resize(held + kReadBytes);
    ssize_t got = ::recv(descriptor_, inbox_.data() + held, kReadBytes, MSG_DONTWAIT);
    int number = errno;
    inbox_.resize(held + static_cast<std::size_t>(got > 0 ? got : 0));
    if (got > 0) continue;
    if (got < 0 && (number == EAGAIN || number == EWOULDBLOCK)) break;
    if (got < 0 && number == EINTR) continue;
    closed_ = true;
  }
}

Result<bool> PublishClient::take(Message& message) {
  ByteView rest = ByteView(inbox_).subspan(inbox_start_);
  if (rest.size() < kPrefix) return false;
  std::size_t header_bytes = get_u32(rest.data()), payload_bytes = get_u32(rest.data() + 4);
  if (header_bytes > kMaxPublishHeader || payload_bytes > limits::kMaxPayloadBytes) {
    return fail(ErrorCode::limit, "p2pwd sent a publish message of " + std::to_string(header_bytes) + " + " +
                                      std::to_string(payload_bytes) + " bytes");
  }
  std::size_t whole = kPrefix + header_bytes + payload_bytes;
  if (rest.size() < whole) return false;
  ByteView header = rest.subspan(kPrefix, header_bytes), payload = rest.subspan(kPrefix + header_bytes, payload_bytes);
  message.header.assign(header.begin(), header.end());
  message.payload.assign(payload.begin(), payload.end());
  inbox_start_ += whole;
  return true;
}

// The daemon says why before it hangs up; that is what the user wants to read.
Status PublishClient::check_arrived() {
  pump();
  for (;;) {
    Message message;
    P2PW_TRY(bool whole, take(message));
    if (!whole) return {};
    wire::PublishMessage parsed;
    P2PW_CHECK(parse(message.header, parsed));
    arrived_.push_back(std::move(message));
  }
}

Status PublishClient::write_all(ByteView bytes) {
  while (!bytes.empty()) {
    ssize_t put = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    int number = errno;
    if (put > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(put));
    } else if (number == EAGAIN || number == EWOULDBLOCK || number == EINTR) {
      Status writable = wait_for(POLLOUT, Deadline::max());
      if (!writable && writable.error().code == ErrorCode::interrupted && !last_word_) {
        stop_asking();
        continue;
      }
      P2PW_CHECK(writable);
      P2PW_CHECK(check_arrived());
    } else {
      P2PW_CHECK(check_arrived());
      return gone(std::strerror(number));
    }
  }
  return {};
}

Status PublishClient::send(const wire::PublishMessage& message, ByteView payload) {
  if (broken_) return fail(ErrorCode::unreachable, "the connection to p2pwd is broken in the middle of a message");
  P2PW_CHECK(check_arrived());
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
  broken_ = true;
  P2PW_CHECK(write_all(header));
  P2PW_CHECK(write_all(payload));
  broken_ = false;
  return {};
}

void PublishClient::stop_asking() { last_word_ = Clock::now() + kLastWord; }

Status PublishClient::receive(wire::PublishMessage& message, Bytes& payload, std::chrono::milliseconds patience) {
  auto until = Clock::now() + patience;
  Message next;
  bool whole = !arrived_.empty();
  if (whole) {
    next = std::move(arrived_.front());
    arrived_.pop_front();
  }
  while (!whole) {
    P2PW_TRY(whole, take(next));
    if (whole) break;
    if (closed_) return gone("it closed the connection");
    P2PW_CHECK(wait_for(POLLIN, until));
    pump();
  }
  payload = std::move(next.payload);
  return parse(next.header, message);
}

}  // namespace p2pw
