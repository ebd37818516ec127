#include "daemon/swarm/request_pacer.h"

#include <algorithm>

namespace p2pw {

void RequestPacer::send(Asker& asker, const Request& request, Clock::time_point now) {
  asker.asked.push_back({request, now});
  asker.neighbour->window.asked(static_cast<std::uint64_t>(request.length));
}

bool RequestPacer::ask(const std::string& neighbour, Connection connection, const Request& request,
                       Clock::time_point now) {
  Asker& asker = askers_[connection];
  asker.neighbour = &neighbours_[neighbour];
  if (asker.neighbour->waiting.empty() && asker.neighbour->window.open()) {
    send(asker, request, now);
    return true;
  }
  asker.neighbour->waiting.push_back({connection, request});
  return false;
}

void RequestPacer::answered(Connection connection, const Request& request, Clock::time_point now) {
  auto asker = askers_.find(connection);
  if (asker == askers_.end()) return;
  auto& asked = asker->second.asked;
  auto it = std::find_if(asked.begin(), asked.end(), [&](const Asked& a) { return a.request == request; });
  if (it == asked.end()) return;
  asker->second.neighbour->window.answered(static_cast<std::uint64_t>(request.length), it->at, now);
  asked.erase(it);
}

bool RequestPacer::cancelled(Connection connection, const Request& request) {
  return hasten(connection, [&](const Due& due) { return due.request == request; }, true);
}

void RequestPacer::choked(Connection connection) {
  hasten(connection, [](const Due&) { return true; }, false);
}

template <class Which>
bool RequestPacer::hasten(Connection connection, Which which, bool cancelled) {
  auto asker = askers_.find(connection);
  if (asker == askers_.end()) return false;
  return 0 < std::erase_if(asker->second.neighbour->waiting, [&](const Due& due) {
    if (due.connection != connection || !which(due)) return false;
    at_once_.push_back({connection, due.request, cancelled});
    return true;
  });
}

void RequestPacer::closed(Connection connection) {
  auto it = askers_.find(connection);
  if (it == askers_.end()) return;
  Neighbour& neighbour = *it->second.neighbour;
  for (const Asked& asked : it->second.asked) neighbour.window.lost(static_cast<std::uint64_t>(asked.request.length));
  const auto of_it = [&](const Due& due) { return due.connection == connection; };
  std::erase_if(neighbour.waiting, of_it);
  std::erase_if(at_once_, of_it);
  askers_.erase(it);
}

std::deque<RequestPacer::Due>* RequestPacer::next_queue() {
  if (!at_once_.empty()) return &at_once_;
  for (auto& [name, neighbour] : neighbours_) {
    if (!neighbour.waiting.empty() && neighbour.window.open()) return &neighbour.waiting;
  }
  return nullptr;
}

std::optional<RequestPacer::Due> RequestPacer::due(Clock::time_point now) {
  std::deque<Due>* queue = next_queue();
  if (queue == nullptr) return std::nullopt;
  const Due due = queue->front();
  queue->pop_front();
  send(askers_.at(due.connection), due.request, now);
  return due;
}

const RequestWindow* RequestPacer::window(const std::string& neighbour) const {
  auto it = neighbours_.find(neighbour);
  return it == neighbours_.end() ? nullptr : &it->second.window;
}

}  // namespace p2pw
