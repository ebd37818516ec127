// Tables of members from another bootstrap daemon, several after each other: u16 length, a Members message, again and again.
// Whatever they say, this daemon itself stays what it is and the table stays bounded.
#include <cstdlib>

#include "protocol/links.pb.h"
#include "protocol/membership.h"

namespace p2pw {
namespace {

NodeKey key_of(std::uint8_t n) {
  NodeKey key;
  key.data.fill(n);
  return key;
}

MemberInfo info_of(std::uint8_t n) {
  MemberInfo info;
  info.member.key = key_of(n);
  info.member.region = Region::parse("eu").value();
  info.member.bootstrap = true;
  info.incarnation = n;
  return info;
}

void fuzz(ByteView bytes) {
  Membership table(info_of(1));
  SteadyTime now{std::chrono::hours(1)};
  table.link_up(info_of(2), now);
  std::size_t heard = 0;
  while (bytes.size() >= 2) {
    const std::size_t length = std::min<std::size_t>(static_cast<std::size_t>(bytes[0]) | static_cast<std::size_t>(bytes[1]) << 8,
                                                     bytes.size() - 2);
    wire::Members message;
    const bool parsed = message.ParseFromArray(bytes.data() + 2, static_cast<int>(length));
    bytes = bytes.subspan(2 + length);
    if (!parsed) continue;
    std::vector<MemberView> views;
    for (const auto& entry : message.entries()) {
      if (auto view = parse_member(entry); view.ok()) views.push_back(std::move(*view));
    }
    heard += views.size();
    table.told(key_of(2), message.whole(), views, now);
    now += std::chrono::seconds(1);
    table.tick(now);
    (void)table.take_changes();
  }
  if (table.size() > heard + 2) std::abort();
  bool self = false;
  for (const Member& member : table.members()) self = self || (member.key == key_of(1) && member.region.str() == "eu");
  if (!self) std::abort();
}

}  // namespace
}  // namespace p2pw

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  p2pw::fuzz(std::as_bytes(std::span(data, size)));
  return 0;
}
