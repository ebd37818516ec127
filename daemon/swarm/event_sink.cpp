#include "daemon/swarm/event_sink.h"

namespace p2pw {

void EventSink::post(std::function<void(SwarmEvents&)> event) {
  post_([self = weak_from_this(), event = std::move(event)] {
    auto sink = self.lock();
    if (sink && sink->events_) event(*sink->events_);
  });
}

void EventSink::chunk_arrived(const BundleId& bundle, ChunkIndex chunk) {
  post([bundle, chunk](SwarmEvents& events) { events.swarm_chunk_arrived(bundle, chunk); });
}

void EventSink::chunk_handed_on(const BundleId& bundle, ChunkIndex chunk) {
  post([bundle, chunk](SwarmEvents& events) { events.swarm_chunk_handed_on(bundle, chunk); });
}

void EventSink::peer_blocked(const BundleId& bundle, const std::string& address, const std::string& reason) {
  post([=](SwarmEvents& events) { events.swarm_peer_blocked(bundle, address, reason); });
}

void EventSink::failed(const BundleId& bundle, const Error& error) {
  post([=](SwarmEvents& events) { events.swarm_failed(bundle, error); });
}

}  // namespace p2pw
