#include "protocol/membership.h"

#include <algorithm>

#include "protocol/limits.h"

namespace p2pw {

Life next_life(Life now, LifeEvent event) {
  using enum Life;
  static constexpr Life kTable[3][5] = {
      // heard, broken, quiet, silent, left
      {live, suspect, suspect, gone, gone},  // live
      {live, suspect, suspect, gone, gone},  // suspect
      {live, gone, gone, gone, gone},        // gone; heard: a stopped process goes on, its link still stands
  };
  return kTable[static_cast<std::size_t>(now)][static_cast<std::size_t>(event)];
}

Membership::Membership(MemberInfo self) : self_(std::move(self)) {}

void Membership::set_self(MemberInfo self) {
  if (self == self_) return;
  self_ = std::move(self);
  self_changed_ = true;
  members_current_ = false;
}

void Membership::touch(const NodeKey& key) {
  dirty_.insert(key);
  members_current_ = false;
}

Membership::Entry* Membership::entry_for(const NodeKey& key) {
  if (key == self_.member.key) return nullptr;
  const auto found = entries_.find(key);
  if (found != entries_.end()) return &found->second;
  if (size() >= limits::kMaxMembers) return nullptr;
  return &entries_[key];
}

void Membership::apply(const NodeKey& key, Entry& entry, LifeEvent event) {
  const Life next = next_life(entry.own->life, event);
  if (next == entry.own->life) return;
  entry.own->life = next;
  touch(key);
}

void Membership::link_up(const MemberInfo& peer, SteadyTime now) {
  Entry* entry = entry_for(peer.member.key);
  if (entry == nullptr) return;
  entry->own = OwnLink{peer, Life::live, now, true};
  touch(peer.member.key);
}

void Membership::link_down(const NodeKey& peer, SteadyTime) {
  const auto found = entries_.find(peer);
  if (found == entries_.end() || !found->second.own) return;
  found->second.own->up = false;
  apply(peer, found->second, LifeEvent::broken);
}

void Membership::heard(const NodeKey& peer, SteadyTime at) {
  const auto found = entries_.find(peer);
  if (found == entries_.end() || !found->second.own) return;
  OwnLink& own = *found->second.own;
  if (!own.up || at <= own.heard) return;
  own.heard = at;
  apply(peer, found->second, LifeEvent::heard);
}

void Membership::left(const NodeKey& peer, SteadyTime) {
  const auto found = entries_.find(peer);
  if (found == entries_.end()) return;
  // It said so itself: no word of a witness that has not heard yet counts against it.
  const std::uint64_t incarnation = found->second.own ? found->second.own->info.incarnation : 0;
  found->second.own.reset();
  std::erase_if(found->second.words,
                [incarnation](const auto& word) { return word.second.view.info.incarnation <= incarnation; });
  touch(peer);
}

void Membership::told(const NodeKey& witness, bool whole, std::span<const MemberView> entries,
                      SteadyTime now) {
  witnesses_[witness] = true;
  std::set<NodeKey> named;
  for (const MemberView& view : entries) {
    const NodeKey& key = view.info.member.key;
    Entry* entry = entry_for(key);
    if (entry == nullptr) continue;
    named.insert(key);
    touch(key);
    if (view.life == Life::gone) {
      entry->words.erase(witness);
    } else {
      entry->words[witness] = Word{view, std::nullopt};
    }
  }
  if (!whole) return;
  for (auto& [key, entry] : entries_) {
    const auto word = entry.words.find(witness);
    if (word != entry.words.end() && !word->second.orphaned && !named.contains(key))
      word->second.orphaned = now;
  }
}

void Membership::witness_lost(const NodeKey& witness, SteadyTime now) {
  const auto found = witnesses_.find(witness);
  if (found == witnesses_.end()) return;
  found->second = false;
  for (auto& [key, entry] : entries_) {
    const auto word = entry.words.find(witness);
    if (word != entry.words.end() && !word->second.orphaned) word->second.orphaned = now;
  }
}

void Membership::tick_own(const NodeKey& key, Entry& entry, SteadyTime now) {
  const auto silence = now - entry.own->heard;
  if (silence >= kGoneAfter) {
    apply(key, entry, LifeEvent::silent);
  } else if (silence >= kSuspectAfter) {
    apply(key, entry, LifeEvent::quiet);
  }
  if (entry.own->life == Life::gone && !entry.own->up) {
    entry.own.reset();
    touch(key);
  }
}

void Membership::tick_words(const NodeKey& key, Entry& entry, SteadyTime now, bool sourced) {
  if (!sourced) return;
  const auto ended = std::erase_if(entry.words, [now](const auto& word) {
    return word.second.orphaned && now - *word.second.orphaned >= kWordStands;
  });
  if (ended != 0) touch(key);
}

void Membership::tick(SteadyTime now) {
  const bool sourced = self_.member.bootstrap ||
                       std::ranges::any_of(witnesses_, [](const auto& witness) { return witness.second; });
  for (auto& [key, entry] : entries_) {
    if (entry.own) tick_own(key, entry, now);
    tick_words(key, entry, now, sourced);
  }
}

std::optional<MemberView> Membership::own_view(const Entry& entry) {
  if (!entry.own || entry.own->life == Life::gone) return std::nullopt;
  return MemberView{entry.own->info, entry.own->life};
}

Membership::Seen Membership::best(const Entry& entry) {
  Seen best;
  if (entry.own && entry.own->life != Life::gone) best = {&entry.own->info, entry.own->life};
  for (const auto& [witness, word] : entry.words) {
    const MemberView& view = word.view;
    const bool better = best.info == nullptr || view.info.incarnation > best.info->incarnation ||
                        (view.info.incarnation == best.info->incarnation && view.life < best.life);
    if (better) best = {&view.info, view.life};
  }
  return best;
}

std::optional<MemberView> Membership::best_view(const Entry& entry) {
  const Seen seen = best(entry);
  if (seen.info == nullptr) return std::nullopt;
  return MemberView{*seen.info, seen.life};
}

std::vector<MemberView> Membership::views() const {
  std::vector<MemberView> out{{self_, Life::live}};
  for (const auto& [key, entry] : entries_) {
    if (auto view = best_view(entry)) out.push_back(std::move(*view));
  }
  std::ranges::sort(out, {}, [](const MemberView& view) { return view.info.member.key; });
  return out;
}

std::vector<MemberView> Membership::own_views() const {
  std::vector<MemberView> out{{self_, Life::live}};
  for (const auto& [key, entry] : entries_) {
    if (auto view = own_view(entry)) out.push_back(std::move(*view));
  }
  return out;
}

const std::vector<Member>& Membership::members() const {
  if (members_current_) return members_;
  members_current_ = true;
  std::vector<Member>& out = members_;
  out.clear();
  out.reserve(size());
  bool self_placed = false;
  for (const auto& [key, entry] : entries_) {
    const Seen seen = best(entry);
    if (seen.info == nullptr) continue;
    if (!self_placed && self_.member.key < key) {
      out.push_back(self_.member);
      self_placed = true;
    }
    out.push_back(seen.info->member);
    out.back().suspect = seen.life == Life::suspect;
  }
  if (!self_placed) out.push_back(self_.member);
  return members_;
}

std::optional<MemberView> Membership::find(const NodeKey& key) const {
  if (key == self_.member.key) return MemberView{self_, Life::live};
  const auto found = entries_.find(key);
  return found == entries_.end() ? std::nullopt : best_view(found->second);
}

namespace {

// Appends what is to be said when `told` was said last, and remembers it.
void note_change(std::optional<MemberView>& told, std::optional<MemberView> now,
                 std::vector<MemberView>& changes) {
  if (told == now) return;
  if (now) {
    changes.push_back(*now);
  } else {
    told->life = Life::gone;
    changes.push_back(std::move(*told));
  }
  told = std::move(now);
}

}  // namespace

Membership::Changes Membership::take_changes() {
  Changes changes;
  if (self_changed_) {
    changes.all.push_back({self_, Life::live});
    changes.own.push_back({self_, Life::live});
    self_changed_ = false;
  }
  for (const NodeKey& key : dirty_) {
    const auto found = entries_.find(key);
    if (found == entries_.end()) continue;
    note_change(found->second.told_all, best_view(found->second), changes.all);
    note_change(found->second.told_own, own_view(found->second), changes.own);
    if (found->second.idle()) entries_.erase(found);
  }
  dirty_.clear();
  return changes;
}

}  // namespace p2pw
