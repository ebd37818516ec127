// A channel's log under records in any order that its publisher really signed: u8 kind of signer, u16 length, record body,
// again and again. What is sealed stays sealed, and what is kept can be read back.
#include "protocol/channel_log.h"

#include <cstdlib>

#include "protocol/record_body.h"

namespace p2pw {
namespace {

void must(bool good) {
  if (!good) std::abort();
}

const SigningKey& key(int which) {
  static const SigningKey keys[] = {SigningKey::generate(), SigningKey::generate(), SigningKey::generate()};
  return keys[which];
}

void fuzz(ByteView bytes) {
  const WallTime now = from_millis(1'800'000'000'000);
  const Channel channel = Channel::parse("policy").value();
  ChannelLog log(channel, key(0).verifying_key());
  Version sealed;
  int records = 0;
  while (bytes.size() >= 3 && records++ < 64) {
    const int signer = static_cast<int>(bytes[0]) % 3;
    const std::size_t length = std::min<std::size_t>(static_cast<std::size_t>(bytes[1]) | static_cast<std::size_t>(bytes[2]) << 8,
                                                     bytes.size() - 3);
    auto plain = decode_record(bytes.subspan(3, length));
    bytes = bytes.subspan(3 + length);
    if (!plain) continue;
    // A delegate that can be used: the input cannot know the key.
    if (auto* delegate = std::get_if<DelegateRecord>(&plain->body)) delegate->key = key(1).verifying_key();
    auto envelope = sign_record(key(signer), channel, plain->issued, plain->body);
    if (!envelope) continue;
    const LogAnswer answer = log.receive(*envelope, now);
    must(signer != 2 || answer.kind == LogAnswer::Kind::refused);
    must((answer.kind == LogAnswer::Kind::refused) == answer.error.has_value());
    for (const LogEvent& event : log.take_events()) must(event.kind != LogEvent::Kind::died || event.version != log.highest_sealed());
    must(log.highest_sealed() >= sealed && log.highest_seen() >= log.highest_sealed());
    sealed = log.highest_sealed();
  }
  if (sealed.value() > 0) must(log.version(sealed) != nullptr && log.version(sealed)->state() == RunState::sealed);
  (void)log.head_state(now);
  (void)log.lineage(sealed);
  // As after a restart: the same records lead to the same place.
  ChannelLog again(channel, key(0).verifying_key());
  for (const VerifiedRecord* record : log.all()) (void)again.receive(record->envelope(), now);
  must(again.highest_sealed() == sealed);
}

}  // namespace
}  // namespace p2pw

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  p2pw::fuzz(std::as_bytes(std::span(data, size)));
  return 0;
}
