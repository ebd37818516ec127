// Which of libtorrent's requests go out at once, and which wait for room in their neighbour's window (RequestWindow).
// They wait in the order in which libtorrent made them.
//
// Pure; network thread. A connection is only a name here.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>

#include "daemon/swarm/request_window.h"

namespace p2pw {

class RequestPacer {
 public:
  using Clock = RequestWindow::Clock;
  using Connection = void*;
  struct Request {
    int piece = 0, start = 0, length = 0;
    bool operator==(const Request&) const = default;
  };
  struct Due {
    Connection connection;
    Request request;
    bool cancelled = false;  // while it waited
  };

  // libtorrent is about to ask. False: not yet, due() will say when.
  bool ask(const std::string& neighbour, Connection connection, const Request& request, Clock::time_point now);
  // By a block or a refusal. What was not asked for is ignored.
  void answered(Connection connection, const Request& request, Clock::time_point now);
  // Not wanted any more. True: it waited, and is due at once, since libtorrent counts on an answer all the same.
  bool cancelled(Connection connection, const Request& request);
  // The neighbour refuses everything for now: what waits is due, and will be refused.
  void choked(Connection connection);
  void closed(Connection connection);

  // The next request that goes out now.
  std::optional<Due> due(Clock::time_point now);
  bool has_due() { return next_queue() != nullptr; }

  const RequestWindow* window(const std::string& neighbour) const;

 private:
  struct Neighbour {
    RequestWindow window;
    std::deque<Due> waiting;
  };
  struct Asked {
    Request request;
    Clock::time_point at;
  };
  struct Asker {
    Neighbour* neighbour = nullptr;
    std::deque<Asked> asked;  // answers come in their order, nearly always
  };
  void send(Asker& asker, const Request& request, Clock::time_point now);
  template <class Which>
  bool hasten(Connection connection, Which which, bool cancelled);
  std::deque<Due>* next_queue();

  std::map<std::string, Neighbour> neighbours_;
  std::map<Connection, Asker> askers_;
  std::deque<Due> at_once_;
};

}  // namespace p2pw
