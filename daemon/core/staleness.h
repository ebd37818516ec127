// How far nodes are behind the trainer: for status and metrics. Pure.
#pragma once

#include <span>
#include <vector>

#include "daemon/client/api.h"

namespace p2pw {

struct NodeLag {
  std::string channel;
  bool unknown = false;        // nobody knows what it serves
  std::uint64_t versions = 0;  // sealed ones that it does not serve
  double seconds = 0;          // since the first of them was sealed
};

// One for each channel, by name. Quantiles are those of the nodes that are known: the smallest value that so many reach.
std::vector<api::Staleness> staleness_of(std::span<const NodeLag> nodes);

}  // namespace p2pw
