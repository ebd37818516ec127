// What comes out of TLS: frames, the handshake, link messages. The first byte says how the stream is cut into
// pieces, the rest is the stream: one frame under the bounds for strangers, taken as a handshake, then frames
// of a proven peer.
#include <algorithm>
#include <cstdlib>

#include "daemon/link/clock_sync.h"
#include "daemon/link/frames.h"
#include "daemon/link/handshake.h"

namespace p2pw {
namespace {

void must(bool good) {
  if (!good) std::abort();
}

NodeKey key_of(std::uint8_t n) {
  NodeKey key;
  key.data.fill(n);
  return key;
}

void fuzz_handshake(ByteView bytes) {
  static LinkTrust trust = [] {
    LinkTrust made(key_of(1));
    std::vector<FleetSecret> secrets;
    secrets.push_back(FleetSecret::generate());
    made.set_secrets(std::move(secrets));
    made.set_enrolments([](const EnrolmentId&) { return std::optional(EnrolmentSecret()); });
    return made;
  }();
  const Exporter exporter{};
  Handshake responder = Handshake::respond(trust, wire::Hello());
  must(responder.secured(key_of(2), exporter).ok());
  must(!responder.received(bytes).ok());  // nobody guesses a proof
  must(responder.state() == Handshake::State::refused);
  Handshake initiator = Handshake::initiate(
      trust, wire::Hello(),
      {.purpose = LinkPurpose::control, .expected = key_of(2), .attempt = 0, .ticket = {}});
  must(initiator.secured(key_of(2), exporter).ok());
  must(!initiator.received(bytes).ok());
  // What only a proof protects has to stand for itself, too: members may be hostile.
  wire::Handshake message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || !message.has_hello()) return;
  wire::Hello hello = message.hello();
  if (trust.correct(key_of(2), hello).ok()) {
    must(hello.node() == key_of(2).text() && Region::parse(hello.region()).ok());
  }
}

void fuzz_message(const Frame& frame) {
  static ClockSync clock;
  static std::uint64_t now = 1;
  auto message = parse_link_message(frame.header, frame.payload.size());
  if (!message) {
    must(frame.payload.empty());  // else it had to be refused before its payload was read
    return;
  }
  must(message->body_case() != wire::LinkMessage::BODY_NOT_SET);
  if (!message->has_heartbeat()) return;
  clock.heard(message->heartbeat(), now += 1000);
  must(clock.round_trip().count() >= 0);
}

void fuzz_stream(ByteView bytes) {
  if (bytes.empty()) return;
  const std::size_t piece = static_cast<std::size_t>(bytes[0]) + 1;
  bytes = bytes.subspan(1);
  FrameReader reader(kUnprovenLimits);
  bool proven = false;
  while (!bytes.empty()) {
    const auto room = reader.writable();
    must(!room.empty());
    const std::size_t count = std::min({room.size(), bytes.size(), piece});
    std::copy_n(bytes.begin(), count, room.begin());
    bytes = bytes.subspan(count);
    if (!reader.commit(count).ok()) return;
    must(reader.held() <= limits::kMaxMessageBytes + limits::kMaxPayloadBytes);
    auto frame = reader.take();
    if (!frame) continue;
    if (proven) {
      fuzz_message(*frame);
    } else {
      must(frame->payload.empty());
      fuzz_handshake(frame->header);
      reader.set_limits(FrameLimits{});
      proven = true;
    }
  }
}

}  // namespace
}  // namespace p2pw

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  p2pw::fuzz_stream(std::as_bytes(std::span(data, size)));
  return 0;
}
