#include "daemon/core/event_log.h"

#include <spdlog/spdlog.h>

namespace p2pw {

void EventLog::add(const Channel& channel, std::string event, Version version, std::string detail, std::string node) {
  spdlog::debug("{} {} version {} {}", channel.str(), event, version.value(), detail);
  entries_.push_back({next_++, to_millis(now_()), channel.str(), std::move(event), version.value(), std::move(node),
                      std::move(detail)});
  if (entries_.size() > keep_) entries_.pop_front();
}

api::LogReply EventLog::after(std::uint64_t id, const std::string& channel, std::size_t limit, std::uint64_t run) const {
  api::LogReply reply;
  if (run != 0 && run != run_) id = 0;  // of a daemon that is no more
  reply.run = run_;
  reply.next = id;
  reply.first = entries_.empty() ? next_ : entries_.front().id;
  if (id + 1 < reply.first) reply.lost = reply.first - id - 1;
  for (const api::LogEntry& entry : entries_) {
    if (entry.id <= id) continue;
    if (reply.entries.size() >= limit) break;
    reply.next = entry.id;
    if (channel.empty() || entry.channel == channel) reply.entries.push_back(entry);
  }
  return reply;
}

std::uint64_t EventLog::before_newest(std::uint64_t count, const std::string& channel) const {
  std::uint64_t id = next_ - 1;
  for (auto entry = entries_.rbegin(); entry != entries_.rend() && count > 0; ++entry) {
    if (!channel.empty() && entry->channel != channel) continue;
    id = entry->id - 1;
    --count;
  }
  return id;
}

}  // namespace p2pw
