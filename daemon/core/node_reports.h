// What the API answers about versions and nodes over time. Control thread only.
#pragma once

#include "daemon/client/api.h"
#include "protocol/links.pb.h"
#include "protocol/ids.h"

namespace p2pw {

class Follower;
class Node;
struct SwarmConfinement;

api::VersionsReply versions_report(const Follower& follower, std::size_t limit);
// Error: not_found (nothing is known of that version here).
Result<api::TimelineReply> timeline_report(Node& node, const Follower& follower, Version version);

// The channel's, on this daemon; null when it does not follow it.
Follower* follower_of(Node& node, const wire::NodeState& state);
bool is_trainer(Node& node, const wire::NodeState& state);

// How long ago the first version that this node has not activated was sealed here; 0 = none.
double lag_seconds(Node& node, const wire::NodeState& state);

// "a process of its own, Landlock (ABI 7), seccomp"; names what the kernel does not have.
std::string text_of(const SwarmConfinement& confinement);

// Why a node is not where it should be, in words; empty when it is. `newest`: highest sealed version known here; `lag`: of
// this node, in seconds; `neighbours`: live nodes of its region that have `newest` already.
std::string why_behind(const wire::NodeState& state, Version newest, double lag, std::size_t neighbours);

}  // namespace p2pw
