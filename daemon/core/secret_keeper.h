// The fleet secrets of this daemon, and how they are replaced while the fleet runs (protocol/secret_handover.h).
//
// rotate(), on the trainer, makes a new secret, from then on the current one, and a handover for the members. Old ones stay
// good for links until retire(), and for reading older lineages for ever. Whoever is not to have the new one is named in
// rotate(); after retire() it is outside.
//
// In the state folder beside the secrets: fleet/handover (the newest parts, for members that come later), fleet/only (id of
// the secret that alone opens links), fleet/excluded (node keys, on the trainer). Control thread only.
#pragma once

#include <set>

#include "daemon/client/config.h"
#include "protocol/links.pb.h"
#include "protocol/secret_handover.h"

namespace p2pw {

class SecretKeeper {
 public:
  using Parts = std::vector<wire::SecretHandover>;

  // Errors: those of load_fleet_secrets(), config (a damaged file).
  static Result<SecretKeeper> open(const Config& config);

  const std::vector<FleetSecret>& all() const { return secrets_; }  // newest first
  const FleetSecret* current() const { return secrets_.empty() ? nullptr : &secrets_.front(); }
  const FleetSecret* find(const SecretId& id) const;
  std::vector<FleetSecret> for_links() const;  // those with which a peer may prove itself
  const std::set<NodeKey>& excluded() const { return excluded_; }
  // Keeps what an enrolment brought, oldest first. Errors: io, no_space, config.
  Status add(const std::vector<std::string>& files_newest_first);

  // The trainer. `members`: everybody known. What is returned is to be sent on every link. Errors: io, no_space; usage (an
  // older rotation is not retired yet: retire() first).
  Result<Parts> rotate(const SigningKey& own, WallTime now, const std::vector<NodeKey>& members,
                       const std::set<NodeKey>& without);
  Result<Parts> retire(const SigningKey& own, WallTime now, const std::vector<NodeKey>& members);
  // Copies for members that have none yet, while the old secret is still good.
  Result<Parts> for_newcomers(const SigningKey& own, const std::vector<NodeKey>& members);

  // Everybody. `news`: to be passed on. `changed`: the secrets are others now.
  struct Heard {
    bool news = false, changed = false;
  };
  Result<Heard> hear(const wire::SecretHandover& message, const SigningKey& own);
  // The part with this node's copy, for a peer that has just come.
  const wire::SecretHandover* part_for(const NodeKey& node) const;

 private:
  explicit SecretKeeper(const Config& config);
  Status load_handover();
  Status save_handover() const;
  Status set_only(const SecretId& id);
  Result<Parts> hand_over(const SigningKey& own, const std::vector<NodeKey>& members);
  void keep(const wire::SecretHandover& part);
  void forget_parts();

  StatePaths paths_;
  std::vector<NodeKey> trusted_;
  std::vector<FleetSecret> secrets_;
  std::optional<SecretId> only_;
  std::set<NodeKey> excluded_;
  WallTime issued_{};
  Parts parts_;                 // of the newest handover
  std::set<std::string> seen_;  // their bodies
  std::set<NodeKey> copied_;    // who has a copy in them
};

}  // namespace p2pw
