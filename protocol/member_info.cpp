#include "protocol/member_info.h"

#include <algorithm>

#include "protocol/limits.h"
#include "protocol/links.pb.h"

namespace p2pw {
namespace {

constexpr std::size_t kMaxEndpoints = 16, kMaxChannels = 1024, kMaxText = 128;

Error bad(const std::string& complaint) {
  return fail(ErrorCode::malformed, "a member's introduction: " + complaint);
}

Result<Endpoint> parse_endpoint(const wire::Endpoint& endpoint) {
  if (!is_host(endpoint.address()) || endpoint.port() == 0 || endpoint.port() > 65535) {
    return bad("an address that nobody could dial");
  }
  return Endpoint{endpoint.address(), static_cast<std::uint16_t>(endpoint.port())};
}

// For people, so only cleaned: it ends up in logs and on terminals.
std::string printable(const std::string& text) {
  std::string out = text.substr(0, kMaxText);
  for (char& c : out) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return out;
}

}  // namespace

std::string_view name_of(Life life) {
  switch (life) {
    case Life::live:
      return "live";
    case Life::suspect:
      return "suspect";
    case Life::gone:
      return "gone";
  }
  return "gone";
}

Result<MemberInfo> parse_hello(const wire::Hello& hello) {
  MemberInfo out;
  const auto key = NodeKey::from(std::string_view(hello.node()));
  if (!key) return bad("its key has " + std::to_string(hello.node().size()) + " bytes");
  auto region = Region::parse(hello.region());
  if (!region) return bad("its region: " + region.error().message);
  out.member = {*key, std::move(region).value(), hello.trainer(), hello.bootstrap()};
  out.member.wan_mbit = hello.wan_mbit();
  out.incarnation = hello.incarnation();
  if (static_cast<std::size_t>(hello.endpoints_size()) > kMaxEndpoints) return bad("too many addresses");
  for (const wire::Endpoint& endpoint : hello.endpoints()) {
    P2PW_TRY(Endpoint parsed, parse_endpoint(endpoint));
    out.endpoints.push_back(std::move(parsed));
  }
  if (hello.has_swarm()) {
    P2PW_TRY(out.swarm, parse_endpoint(hello.swarm()));
  }
  if (static_cast<std::size_t>(hello.channels_size()) > kMaxChannels) return bad("too many channels");
  std::vector<Channel> channels;
  for (const std::string& name : hello.channels()) {
    auto channel = Channel::parse(name);
    if (!channel) return bad("its channel: " + channel.error().message);
    channels.push_back(std::move(channel).value());
  }
  out.member.follows = Follows(std::move(channels));
  out.software = printable(hello.software());
  out.name = printable(hello.name());
  return out;
}

Result<MemberView> parse_member(const wire::MemberEntry& entry) {
  MemberView out;
  P2PW_TRY(out.info, parse_hello(entry.hello()));
  if (entry.life() != wire::MemberEntry::LIVE && entry.life() != wire::MemberEntry::SUSPECT &&
      entry.life() != wire::MemberEntry::GONE) {
    return bad("a state that is not known");
  }
  out.info.incarnation = entry.incarnation();
  out.life = static_cast<Life>(entry.life());
  return out;
}

void write_hello(const MemberInfo& info, wire::Hello& out) {
  out.Clear();
  out.set_node(std::string(info.member.key.text()));
  out.set_region(info.member.region.str());
  out.set_trainer(info.member.trainer);
  out.set_bootstrap(info.member.bootstrap);
  out.set_wan_mbit(info.member.wan_mbit);
  const auto put = [](const Endpoint& from, wire::Endpoint& to) {
    to.set_address(from.host);
    to.set_port(from.port);
  };
  for (const Endpoint& endpoint : info.endpoints) put(endpoint, *out.add_endpoints());
  if (info.swarm) put(*info.swarm, *out.mutable_swarm());
  for (const Channel& channel : info.member.follows.listed()) out.add_channels(channel.str());
  out.set_software(info.software);
  out.set_name(info.name);
  out.set_incarnation(info.incarnation);
}

void write_member(const MemberView& view, wire::MemberEntry& out) {
  out.Clear();
  write_hello(view.info, *out.mutable_hello());
  out.set_life(static_cast<wire::MemberEntry::Life>(view.life));
  out.set_incarnation(view.info.incarnation);
}

}  // namespace p2pw
