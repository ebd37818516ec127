// Which runs' bundles stay on this disk, and why: a pure function, so that `p2pw gc` can tell beforehand.
//
// A link of a lineage is never dropped while somebody needs it: this node's own slots, a node that was seen lately at an
// older version, a joiner that has pinned where it starts from. Beyond that a node keeps the last few versions; a keeper
// (the trainer) also keeps one way from nothing: the newest complete anchor and every delta since.
#pragma once

#include <string>
#include <vector>

#include "protocol/run.h"

namespace p2pw {

inline constexpr std::size_t kKeptVersions = 4;

struct RetainedRun {
  RunId id;
  Version version;
  Kind kind = Kind::delta;
  bool again = false;     // an anchor outside the chain
  RunState state = RunState::open;
  bool complete = false;  // all of it is on this disk
  bool needed = false;    // a slot here has yet to pass it
  std::uint64_t bytes = 0;
};

struct Need {
  std::string who;
  Version above;  // needs the bundles of all versions above this one
};

struct RetentionFacts {
  bool keeper = false;
  std::size_t kept_versions = kKeptVersions;
  std::vector<Need> needs;
};

struct Verdict {
  bool keep = true;
  std::string why;
};

// One for each of `runs`, in their order.
std::vector<Verdict> retain(const std::vector<RetainedRun>& runs, const RetentionFacts& facts);

}  // namespace p2pw
