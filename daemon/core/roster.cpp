#include "daemon/core/roster.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "daemon/core/link_plan.h"
#include "protocol/limits.h"

namespace p2pw {
namespace {

// An entry takes some 250 bytes and a message header at most 64 KiB: large tables go in parts, `whole` on the first.
constexpr std::size_t kEntriesPerMessage = 128;

void send_members(LinkHub& hub, const NodeKey& to, const std::vector<MemberView>& views, bool whole) {
  for (std::size_t at = 0; at < views.size() || (at == 0 && whole); at += kEntriesPerMessage) {
    wire::LinkMessage message;
    message.mutable_members()->set_whole(whole && at == 0);
    for (std::size_t i = at; i < std::min(views.size(), at + kEntriesPerMessage); ++i) {
      write_member(views[i], *message.mutable_members()->add_entries());
    }
    hub.send(to, message);
  }
}

}  // namespace

Roster::Roster(LinkHub& hub, Options options, Events events)
    : hub_(hub), options_(std::move(options)), events_(std::move(events)), table_(options_.self) {
  members_ = table_.members();
  self_member_ = options_.self.member;
}

void Roster::start(SteadyTime now) {
  refresh(now);
  follow_plan();
}

const Member* Roster::find(const NodeKey& key) const {
  auto it = std::lower_bound(members_.begin(), members_.end(), key, [](auto& m, auto& k) { return m.key < k; });
  return it != members_.end() && it->key == key ? &*it : nullptr;
}

void Roster::link_up(const NodeKey& peer, const wire::Hello& hello, SteadyTime now) {
  auto info = parse_hello(hello);
  if (!info.ok() || info->member.key != peer) {
    hub_.drop(peer, fail(ErrorCode::malformed, "its hello is not valid"));
    return;
  }
  table_.link_up(*info, now);
  refresh(now);
  send_table(peer);
}

// Everybody shows its table: a daemon without a role vouches for nobody but itself.
void Roster::send_table(const NodeKey& to) {
  if (!witness()) return;
  send_members(hub_, to, told_all(to, served_regions()) ? table_.views() : table_.own_views(), true);
}

std::set<Region> Roster::served_regions() const {
  std::set<Region> served;
  for (const Member& m : members_) {
    if (m.bootstrap && !m.trainer && !m.suspect) served.insert(m.region);
  }
  return served;
}

// Other bootstrap daemons, and gateway candidates of regions that have one, hear of everybody from whoever has the link:
// to tell them all would be the same news once for each region.
bool Roster::told_all(const NodeKey& peer, const std::set<Region>& served) const {
  const Member* member = find(peer);
  if (!member) return true;
  if (member->bootstrap) return false;
  return member->region == self_member_.region || !served.contains(member->region);
}

void Roster::link_down(const NodeKey& peer, SteadyTime now) {
  table_.link_down(peer, now);
  table_.witness_lost(peer, now);
  refresh(now);
}

void Roster::said_goodbye(const NodeKey& peer, SteadyTime now) {
  table_.left(peer, now);
  refresh(now);
}

void Roster::members_message(const NodeKey& from, const wire::Members& message, SteadyTime now) {
  if (static_cast<std::size_t>(message.entries_size()) > limits::kMaxMembers) return;
  std::vector<MemberView> views;
  for (const auto& entry : message.entries()) {
    if (auto view = parse_member(entry); view.ok()) views.push_back(std::move(*view));
  }
  // Only bootstrap daemons are believed about others; one that has just taken the role says so of itself here, after the
  // hello of its link.
  auto own = std::find_if(views.begin(), views.end(), [&](const MemberView& v) { return v.info.member.key == from; });
  const Member* sender = find(from);
  if (sender && !sender->bootstrap && own != views.end() && own->info.member.bootstrap && hub_.linked(from)) {
    table_.link_up(own->info, now);
    refresh(now);
    sender = find(from);
  }
  if (!sender || !sender->bootstrap) return;
  table_.told(from, message.whole(), views, now);
  told_whole_ = told_whole_ || message.whole();
  refresh(now);
}

void Roster::tick(SteadyTime now) {
  for (const NodeKey& peer : hub_.links()) {
    if (auto heard = hub_.last_heard(peer)) table_.heard(peer, *heard);
  }
  table_.tick(now);
  consider_role(now);
  refresh(now);
}

void Roster::consider_role(SteadyTime now) {
  if (witness() || self_member_.trainer || !told_whole_) return;
  bool served = std::any_of(members_.begin(), members_.end(), [&](const Member& m) {
    return m.bootstrap && m.region == self_member_.region && !m.suspect;
  });
  if (served) {
    alone_since_.reset();
    return;
  }
  if (!alone_since_) alone_since_ = now;
  // Several nodes may find the region without one at once: the smallest key goes first.
  std::size_t before = 0;
  for (const Member& m : members_) before += m.region == self_member_.region && m.key < self_member_.key && !m.suspect;
  if (now - *alone_since_ < options_.take_role_after * static_cast<int>(1 + std::min<std::size_t>(before, 8))) return;
  spdlog::info("region {} has no bootstrap daemon: this one takes the role", self_member_.region.str());
  options_.self.member.bootstrap = true;
  self_member_ = options_.self.member;
  table_.set_self(options_.self);
  if (events_.self_changed) events_.self_changed(options_.self);
  for (const NodeKey& peer : hub_.links()) send_table(peer);
}

void Roster::push(const Membership::Changes& changes) {
  if (!witness() || changes.empty()) return;
  auto served = served_regions();
  for (const NodeKey& peer : hub_.links()) {
    send_members(hub_, peer, told_all(peer, served) ? changes.all : changes.own, false);
  }
}

void Roster::refresh(SteadyTime) {
  push(table_.take_changes());
  const std::vector<Member>& now_members = table_.members();
  if (now_members == members_) return;
  auto old = std::move(members_);
  members_ = now_members;
  std::vector<NodeKey> lost, back;
  for (const Member& was : old) {
    const Member* is = find(was.key);
    if (!is || (is->suspect && !was.suspect)) lost.push_back(was.key);
  }
  for (const Member& is : members_) {
    auto was = std::find_if(old.begin(), old.end(), [&](const Member& m) { return m.key == is.key; });
    if (!is.suspect && (was == old.end() || was->suspect)) back.push_back(is.key);
  }
  follow_plan();
  if (events_.changed) events_.changed(lost, back);
}

void Roster::follow_plan() {
  auto plan = plan_links(self_member_, members_, self_member_.follows.listed(), options_.candidates);
  for (const NodeKey& peer : plan.peers) {
    if (dialled_.contains(peer)) continue;
    auto view = table_.find(peer);
    if (!view || view->info.endpoints.empty()) continue;
    const Endpoint& to = view->info.endpoints.front();
    dialled_.insert(peer);
    hub_.dial(LinkEndpoint{to.host, to.port}, peer);
  }
  for (auto it = dialled_.begin(); it != dialled_.end();) {
    bool wanted = plan.peers.contains(*it);
    if (wanted) {
      ++it;
      continue;
    }
    hub_.undial(*it);
    it = dialled_.erase(it);
  }
  // One that is dialled as a member is not hung up on as a configured address; without a key, the address tells.
  auto planned = [&](std::size_t i) {
    if (options_.configured_keys[i]) return plan.peers.contains(*options_.configured_keys[i]);
    return std::any_of(plan.peers.begin(), plan.peers.end(), [&](const NodeKey& peer) {
      auto view = table_.find(peer);
      return view && std::any_of(view->info.endpoints.begin(), view->info.endpoints.end(), [&](const Endpoint& at) {
        return at.host == options_.configured[i].host && at.port == options_.configured[i].port;
      });
    });
  };
  if (plan.needs_configured != configured_dialled_) {
    configured_dialled_ = plan.needs_configured;
    for (std::size_t i = 0; i < options_.configured.size(); ++i) {
      if (options_.configured_keys[i] == self_member_.key) continue;
      if (configured_dialled_) {
        hub_.dial(options_.configured[i], options_.configured_keys[i]);
      } else if (!planned(i)) {
        hub_.undial(options_.configured[i]);
      }
    }
  }
}

std::vector<wire::MemberEntry> Roster::entries() const {
  std::vector<wire::MemberEntry> out;
  for (const MemberView& view : table_.views()) write_member(view, out.emplace_back());
  return out;
}

std::vector<NodeKey> Roster::regional_links(const Channel* channel) const {
  std::vector<NodeKey> out;
  for (const Member& m : members_) {
    if (m.region != self_member_.region || m.key == self_member_.key || m.trainer || !hub_.linked(m.key)) continue;
    if (!channel || m.follows.has(*channel)) out.push_back(m.key);
  }
  return out;
}

std::vector<NodeKey> Roster::entry_nodes(const Channel& channel) const {
  std::map<Region, const Member*> best;
  for (const Member& m : members_) {
    if (m.trainer || (m.region == self_member_.region && !self_member_.trainer) || !hub_.linked(m.key)) continue;
    if (!m.follows.has(channel)) continue;
    const Member*& entry = best[m.region];
    auto rank = [](const Member& x) { return std::pair(!x.suspect, x.bootstrap); };
    if (!entry || rank(m) > rank(*entry)) entry = &m;
  }
  std::vector<NodeKey> out;
  for (auto& [region, member] : best) out.push_back(member->key);
  return out;
}

}  // namespace p2pw
