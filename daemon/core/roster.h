// Membership on real links: feeds the table of members with what links say, pushes its changes to those who depend on it,
// and dials whom the link plan wants. Control thread only.
//
// A region's first node finds no bootstrap daemon of its region in the table and takes the role.
#pragma once

#include <functional>
#include <map>
#include <set>

#include "daemon/link/link_hub.h"
#include "protocol/membership.h"

namespace p2pw {

class Roster {
 public:
  struct Options {
    MemberInfo self;
    std::vector<LinkEndpoint> configured;              // bootstrap daemons of the configuration
    std::vector<std::optional<NodeKey>> configured_keys;
    std::size_t candidates = kGatewayCandidates;
    std::chrono::milliseconds take_role_after{1500};   // without a bootstrap daemon in the region
  };
  struct Events {
    // The members for placement have changed: newly lost (gone or suspect) and newly well ones apart.
    std::function<void(const std::vector<NodeKey>& lost, const std::vector<NodeKey>& back)> changed;
    std::function<void(const MemberInfo&)> self_changed;  // the bootstrap role was taken
  };

  Roster(LinkHub& hub, Options options, Events events);

  void start(SteadyTime now);
  void link_up(const NodeKey& peer, const wire::Hello& hello, SteadyTime now);
  void link_down(const NodeKey& peer, SteadyTime now);
  void said_goodbye(const NodeKey& peer, SteadyTime now);
  void members_message(const NodeKey& from, const wire::Members& message, SteadyTime now);
  void tick(SteadyTime now);

  const std::vector<Member>& members() const { return members_; }
  const Member& self() const { return self_member_; }
  const MemberInfo& self_info() const { return options_.self; }
  const Member* find(const NodeKey& key) const;
  std::optional<MemberView> view(const NodeKey& key) const { return table_.find(key); }
  std::vector<MemberView> views() const { return table_.views(); }
  std::vector<wire::MemberEntry> entries() const;  // for an enrolment reply
  // Linked members of this region that take part in its swarm, all or those that follow a channel; and one linked member of
  // each other region to hand the channel's records to: a bootstrap daemon if there is one that follows it.
  std::vector<NodeKey> regional_links(const Channel* channel = nullptr) const;
  std::vector<NodeKey> entry_nodes(const Channel& channel) const;
  bool witness() const { return options_.self.member.bootstrap; }

 private:
  void refresh(SteadyTime now);
  void push(const Membership::Changes& changes);
  std::set<Region> served_regions() const;  // those with a live bootstrap daemon
  bool told_all(const NodeKey& peer, const std::set<Region>& served) const;
  void send_table(const NodeKey& to);
  void follow_plan();
  void consider_role(SteadyTime now);

  LinkHub& hub_;
  Options options_;
  Events events_;
  Membership table_;
  std::vector<Member> members_;
  Member self_member_;
  std::set<NodeKey> dialled_;
  bool configured_dialled_ = false;
  bool told_whole_ = false;  // some bootstrap daemon has shown its whole table
  std::optional<SteadyTime> alone_since_;
};

}  // namespace p2pw
