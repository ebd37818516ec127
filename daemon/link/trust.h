// Whom this daemon links with: the fleet secrets that prove membership, the allow-list, the banned, the
// enrolment secrets of open tokens. Everything can be replaced while links stand. Pure: no sockets, no clock,
// any one thread.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "protocol/ids.h"
#include "protocol/sealing.h"
#include "protocol/token.h"

namespace p2pw::wire {
class Hello;
}

namespace p2pw {

// What the allow-list fixes for a key; the peer's own word does not count then.
struct AllowedNode {
  Region region;  // empty: as the node says
  bool trainer = false;
  bool bootstrap = false;
};
using AllowList = std::map<NodeKey, AllowedNode>;

// The secret of an open token by its id. Nothing when it is unknown, used up or expired.
using EnrolmentLookup = std::function<std::optional<EnrolmentSecret>(const EnrolmentId& id)>;

class LinkTrust {
 public:
  explicit LinkTrust(const NodeKey& own) : own_(own) {}

  // Newest first. Only those with which a peer may still prove itself: an older one that is kept for opening
  // frames does not belong here once every node has the newer.
  void set_secrets(std::vector<FleetSecret> newest_first) { secrets_ = std::move(newest_first); }
  const FleetSecret* secret(const SecretId& id) const;
  // Dialling tries the newest first and, where that is refused, the others in turn; wraps around. Null
  // without any.
  const FleetSecret* secret_for_attempt(std::size_t attempt) const;

  void set_allow_list(std::optional<AllowList> list) { allowed_ = std::move(list); }
  void set_enrolments(EnrolmentLookup lookup) { enrolments_ = std::move(lookup); }
  std::optional<EnrolmentSecret> enrolment_secret(const EnrolmentId& id) const;

  void ban(const NodeKey& key, const std::string& reason) { banned_[key] = reason; }

  const NodeKey& own_key() const { return own_; }
  // May there be a link with this key at all? Errors: untrusted (ourselves, banned, not on the list).
  Status admits(const NodeKey& key) const;
  // Checks the bounds of a proven peer's introduction and puts the allow-list's region and roles into it.
  // Errors: malformed, untrusted (speaks for another key).
  Status correct(const NodeKey& key, wire::Hello& hello) const;

 private:
  NodeKey own_;
  std::vector<FleetSecret> secrets_;
  std::optional<AllowList> allowed_;
  EnrolmentLookup enrolments_;
  std::map<NodeKey, std::string> banned_;
};

}  // namespace p2pw
