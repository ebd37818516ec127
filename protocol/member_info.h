// What is known of a member, checked: the plain form of wire::Hello and wire::MemberEntry.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "protocol/endpoint.h"
#include "protocol/placement.h"

namespace p2pw {

namespace wire {
class Hello;
class MemberEntry;
}  // namespace wire

// How sure its neighbours are that a daemon is there.
enum class Life : std::uint8_t {
  live,
  suspect,  // silent for 3 s or its link broke: loses its leases, keeps its place
  gone,     // silent for 5 s or said goodbye: leaves the table
};
std::string_view name_of(Life life);

struct MemberInfo {
  Member member;                    // `suspect` is false here; Life says it
  std::uint64_t incarnation = 0;    // of two with the same key, the higher one is the daemon's newer start
  std::vector<Endpoint> endpoints;  // where it accepts links
  std::optional<Endpoint> swarm;    // none for a trainer
  std::string software;
  std::string name;
  auto operator<=>(const MemberInfo&) const = default;
};

struct MemberView {
  MemberInfo info;
  Life life = Life::live;
  auto operator<=>(const MemberView&) const = default;
};

// Bounds and shapes of every field. Errors: malformed, limit.
Result<MemberInfo> parse_hello(const wire::Hello& hello);
Result<MemberView> parse_member(const wire::MemberEntry& entry);
void write_hello(const MemberInfo& info, wire::Hello& out);
void write_member(const MemberView& view, wire::MemberEntry& out);

}  // namespace p2pw
