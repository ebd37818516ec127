// The swarm's way to the control thread: any thread may report, SwarmEvents hears of it there, and nothing is
// delivered any more once the swarm is gone.
#pragma once

#include <memory>
#include <string>

#include "daemon/swarm/swarm_libtorrent.h"

namespace p2pw {

class EventSink : public std::enable_shared_from_this<EventSink> {
 public:
  EventSink(SwarmEvents& events, PostToControl post) : events_(&events), post_(std::move(post)) {}
  // On the control thread, in the swarm's destructor.
  void close() { events_ = nullptr; }

  void chunk_arrived(const BundleId& bundle, ChunkIndex chunk);
  void chunk_handed_on(const BundleId& bundle, ChunkIndex chunk);
  void peer_blocked(const BundleId& bundle, const std::string& address, const std::string& reason);
  void failed(const BundleId& bundle, const Error& error);

 private:
  void post(std::function<void(SwarmEvents&)> event);
  SwarmEvents* events_;  // control thread only
  PostToControl post_;
};

}  // namespace p2pw
