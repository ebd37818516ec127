// Who is in the fleet, as one daemon sees it. A bootstrap daemon learns of the members on its own links and
// vouches for them to the other bootstrap daemons; every other daemon is told by a bootstrap daemon. Nothing
// is passed on from one bootstrap daemon to another, so a rumour cannot keep itself alive: whoever vouches
// has the link.
//
// A member is as live as its best witness says: this daemon's own link (the 3 s and 5 s rules below) or a
// bootstrap daemon's word. Only witnesses of its newest incarnation count. When a witness is lost, or comes
// back without a member that it knew before, its word on that member stands for 30 s: time to find the way to
// it again, or to another bootstrap daemon. With no other source left it stands for as long as that lasts, so
// that what is known keeps working while all bootstrap daemons are down.
//
// Pure: the clock is an argument. One control thread.
#pragma once

#include <chrono>
#include <map>
#include <set>
#include <span>

#include "protocol/member_info.h"

namespace p2pw {

using SteadyTime = std::chrono::steady_clock::time_point;

// What happens to a member on this daemon's own link.
enum class LifeEvent : std::uint8_t {
  heard,   // a heartbeat or any other byte
  broken,  // the link went down
  quiet,   // nothing for kSuspectAfter
  silent,  // nothing for kGoneAfter
  left,    // it said goodbye
};
Life next_life(Life now, LifeEvent event);

class Membership {
 public:
  static constexpr std::chrono::seconds kSuspectAfter{3};
  static constexpr std::chrono::seconds kGoneAfter{5};
  static constexpr std::chrono::seconds kWordStands{30};

  // `self` is always live and never changed by what others say. self.member.bootstrap decides whether own
  // links count as witnesses worth pushing, and whether the word of a lost witness ever ends without another
  // source.
  explicit Membership(MemberInfo self);
  void set_self(MemberInfo self);

  // Own links.
  void link_up(const MemberInfo& peer, SteadyTime now);
  void link_down(const NodeKey& peer, SteadyTime now);
  void heard(const NodeKey& peer,
             SteadyTime at);  // when the last byte came; earlier than already known is fine
  void left(const NodeKey& peer, SteadyTime now);

  // What a bootstrap daemon says: its whole table, or changes. The caller has checked that the witness has
  // that role. A word on this daemon itself is ignored.
  void told(const NodeKey& witness, bool whole, std::span<const MemberView> entries, SteadyTime now);
  // The link to that witness is gone, or back (before it has said anything).
  void witness_lost(const NodeKey& witness, SteadyTime now);

  // To be called a few times a second: time turns silence into suspicion, and suspicion into absence.
  void tick(SteadyTime now);

  // For placement, sorted by key: everybody who is not gone, this daemon included; suspects are marked. Made anew only
  // after something has changed: it is looked at several times a second. Good until the next call.
  const std::vector<Member>& members() const;
  std::vector<MemberView> views() const;
  // What this daemon vouches for, itself included: the whole table for another bootstrap daemon.
  std::vector<MemberView> own_views() const;
  std::optional<MemberView> find(const NodeKey& key) const;
  std::size_t size() const { return entries_.size() + 1; }

  // What has changed since the last call, to be pushed: `all` to daemons that have no role, `own` to
  // bootstrap daemons. Absence is told once. To be called by every daemon now and then, as it forgets who is
  // gone.
  struct Changes {
    std::vector<MemberView> all;
    std::vector<MemberView> own;
    bool empty() const { return all.empty() && own.empty(); }
  };
  Changes take_changes();

 private:
  struct OwnLink {
    MemberInfo info;
    Life life = Life::live;
    SteadyTime heard;
    bool up = true;
  };
  struct Word {
    MemberView view;
    std::optional<SteadyTime> orphaned;  // since when its witness does not repeat it
  };
  struct Entry {
    std::optional<OwnLink> own;
    std::map<NodeKey, Word> words;                 // by witness
    std::optional<MemberView> told_all, told_own;  // as last taken by take_changes()
    bool idle() const { return !own && words.empty() && !told_all && !told_own; }
  };

  // What the best witness says, without a copy.
  struct Seen {
    const MemberInfo* info = nullptr;  // null: nobody sees it
    Life life = Life::gone;
  };
  static Seen best(const Entry& entry);
  static std::optional<MemberView> own_view(const Entry& entry);
  static std::optional<MemberView> best_view(const Entry& entry);
  Entry* entry_for(const NodeKey& key);  // null: the table is full, or it is this daemon itself
  void apply(const NodeKey& key, Entry& entry, LifeEvent event);
  void tick_own(const NodeKey& key, Entry& entry, SteadyTime now);
  void tick_words(const NodeKey& key, Entry& entry, SteadyTime now, bool sourced);

  MemberInfo self_;
  bool self_changed_ = false;
  std::map<NodeKey, Entry> entries_;
  std::map<NodeKey, bool> witnesses_;  // true: its link stands
  void touch(const NodeKey& key);
  std::set<NodeKey> dirty_;            // entries to look at in take_changes()
  mutable std::vector<Member> members_;
  mutable bool members_current_ = false;
};

}  // namespace p2pw
