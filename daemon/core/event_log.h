// What happened on this node, for people and scripts: a bounded ring with ids that rise by one, so that a client notices
// a gap. The ids begin at one with every start of the daemon, which `run` tells apart. Control thread only.
#pragma once

#include <deque>
#include <functional>
#include <string>

#include "daemon/client/api.h"
#include "protocol/ids.h"

namespace p2pw {

class EventLog {
 public:
  explicit EventLog(std::function<WallTime()> now, std::size_t keep = 20'000)
      : now_(std::move(now)), keep_(keep), run_(to_millis(now_())) {}
  void add(const Channel& channel, std::string event, Version version, std::string detail, std::string node = {});
  // Entries with higher ids than `id`, which is from the log that began at `run` (0 = this one).
  api::LogReply after(std::uint64_t id, const std::string& channel, std::size_t limit, std::uint64_t run = 0) const;
  // The id to give after() for the newest `count` entries of the channel (empty: of all).
  std::uint64_t before_newest(std::uint64_t count, const std::string& channel) const;

 private:
  std::function<WallTime()> now_;
  std::size_t keep_;
  std::uint64_t run_;
  std::uint64_t next_ = 1;
  std::deque<api::LogEntry> entries_;
};

}  // namespace p2pw
