// What happened on this node, for people and scripts: a bounded ring with ids that rise by one, so that a client notices
// a gap. Control thread only.
#pragma once

#include <deque>
#include <functional>
#include <string>

#include "daemon/client/api.h"
#include "protocol/ids.h"

namespace p2pw {

class EventLog {
 public:
  explicit EventLog(std::function<WallTime()> now, std::size_t keep = 20'000) : now_(std::move(now)), keep_(keep) {}
  void add(const Channel& channel, std::string event, Version version, std::string detail, std::string node = {});
  api::LogReply after(std::uint64_t id, const std::string& channel, std::size_t limit) const;

 private:
  std::function<WallTime()> now_;
  std::size_t keep_;
  std::uint64_t next_ = 1;
  std::deque<api::LogEntry> entries_;
};

}  // namespace p2pw
