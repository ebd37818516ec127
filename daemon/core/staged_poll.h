// How many nodes have a version staged: for those that wait for each other before they activate it. A node asks a bootstrap
// daemon of its region, which knows its region; for the whole fleet that one asks a trainer. Whoever is asked answers with
// what it knows, and nobody asks more often than once in kEvery.
//
// The numbers are what nodes say of themselves: a member that lies can hasten or delay an activation, nothing else.
//
// Threads: control thread only.
#pragma once

#include <functional>
#include <map>
#include <optional>

#include "daemon/core/fleet_states.h"
#include "daemon/spread/credit.h"
#include "protocol/links.pb.h"

namespace p2pw {

class StagedPoll {
 public:
  static constexpr std::chrono::milliseconds kEvery{1000};
  static constexpr std::chrono::seconds kFresh{5};
  static constexpr std::size_t kMaxAnswers = 256;
  struct World {
    std::function<const Member&()> self;
    std::function<std::vector<Member>()> links;  // members that are linked
    std::function<void(const NodeKey&, const wire::LinkMessage&)> send;
  };

  StagedPoll(const FleetStates& states, World world) : states_(states), world_(std::move(world)) {}

  // As far as it is known; asks when it is due.
  std::optional<FleetStates::Count> count(const Channel& channel, Version version, bool fleet, SteadyTime now);
  // True when it was one of the two messages.
  bool message(const Member& from, const wire::LinkMessage& message, SteadyTime now);

 private:
  struct Key {
    Channel channel;
    Version version;
    bool fleet;
    auto operator<=>(const Key&) const = default;
  };
  struct Answer {
    std::optional<FleetStates::Count> count;
    SteadyTime heard{}, asked{};
  };
  bool knows(bool fleet) const;
  const Member* whom_to_ask(bool fleet, const std::vector<Member>& links) const;

  const FleetStates& states_;
  World world_;
  std::map<Key, Answer> answers_;
};

}  // namespace p2pw
