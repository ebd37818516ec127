#include "daemon/core/staged_poll.h"

namespace p2pw {

bool StagedPoll::knows(bool fleet) const {
  const Member& self = world_.self();
  return self.trainer || (!fleet && self.bootstrap);
}

const Member* StagedPoll::whom_to_ask(bool fleet, const std::vector<Member>& links) const {
  const Member& self = world_.self();
  const Member* best = nullptr;
  for (const Member& m : links) {
    if (m.suspect) continue;
    if (fleet && m.trainer) return &m;
    if (m.bootstrap && !m.trainer && m.region == self.region && best == nullptr) best = &m;
  }
  return fleet && self.bootstrap ? nullptr : best;  // it would only ask the same trainer
}

std::optional<FleetStates::Count> StagedPoll::count(const Channel& channel, Version version, bool fleet, SteadyTime now) {
  if (knows(fleet)) return states_.nodes_staged(channel, version, fleet ? nullptr : &world_.self().region);
  while (answers_.size() > kMaxAnswers) answers_.erase(answers_.begin());
  Answer& answer = answers_[{channel, version, fleet}];
  if (answer.asked == SteadyTime{} || now - answer.asked >= kEvery) {
    answer.asked = now;
    const auto links = world_.links();
    if (const Member* whom = whom_to_ask(fleet, links)) {
      wire::LinkMessage m;
      auto* wanted = m.mutable_staged_wanted();
      wanted->set_channel(channel.str());
      wanted->set_version(version.value());
      wanted->set_fleet(fleet);
      world_.send(whom->key, m);
    }
  }
  if (!answer.count || now - answer.heard > kFresh) return std::nullopt;
  return answer.count;
}

bool StagedPoll::message(const Member& from, const wire::LinkMessage& message, SteadyTime now) {
  if (message.has_staged_wanted()) {
    const auto& wanted = message.staged_wanted();
    auto channel = Channel::parse(wanted.channel());
    const bool near = from.region == world_.self().region;
    const bool may = world_.self().trainer ? wanted.fleet() : world_.self().bootstrap && near;
    if (!channel || !may) return true;
    if (auto known = count(*channel, Version(wanted.version()), wanted.fleet(), now)) {
      wire::LinkMessage m;
      auto* answer = m.mutable_staged_count();
      answer->set_channel(wanted.channel());
      answer->set_version(wanted.version());
      answer->set_fleet(wanted.fleet());
      answer->set_staged(static_cast<std::uint32_t>(known->staged));
      answer->set_total(static_cast<std::uint32_t>(known->total));
      world_.send(from.key, m);
    }
    return true;
  }
  if (!message.has_staged_count()) return false;
  const auto& said = message.staged_count();
  auto channel = Channel::parse(said.channel());
  const bool may = (said.fleet() && from.trainer) || (from.bootstrap && from.region == world_.self().region);
  auto it = channel && may ? answers_.find({*channel, Version(said.version()), said.fleet()}) : answers_.end();
  if (it == answers_.end()) return true;  // nobody asked
  it->second.count = FleetStates::Count{0, said.staged(), said.total()};
  it->second.heard = now;
  return true;
}

}  // namespace p2pw
