#include "daemon/core/event_log.h"

#include <spdlog/spdlog.h>

namespace p2pw {

void EventLog::add(const Channel& channel, std::string event, Version version, std::string detail, std::string node) {
  spdlog::debug("{} {} version {} {}", channel.str(), event, version.value(), detail);
  entries_.push_back({next_++, to_millis(now_()), channel.str(), std::move(event), version.value(), std::move(node),
                      std::move(detail)});
  if (entries_.size() > keep_) entries_.pop_front();
}

api::LogReply EventLog::after(std::uint64_t id, const std::string& channel, std::size_t limit) const {
  api::LogReply reply;
  reply.next = id;
  for (const api::LogEntry& entry : entries_) {
    if (entry.id <= id || (!channel.empty() && entry.channel != channel)) continue;
    if (reply.entries.size() >= limit) break;
    reply.entries.push_back(entry);
    reply.next = entry.id;
  }
  return reply;
}

}  // namespace p2pw
