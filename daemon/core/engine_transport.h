// One question to an engine and its answer, over whatever it listens on. Conversations (engine_conversation.h) see only
// this, and are tested without sockets.
//
// Errors: unreachable (nothing was handed over: nobody listens), timed_out and incomplete (it may have heard), limit (the
// answer is too long), config (the address is none).
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/client/hook_config.h"
#include "protocol/result.h"

namespace p2pw {

struct EngineCall {
  std::string method = "POST";
  std::string target;  // "/pause_generation"; without meaning for sockets and programs
  std::string body;    // JSON, or empty
  std::chrono::milliseconds time_out{10'000};
};
struct EngineAnswer {
  int status = 200;  // HTTP's; sockets: 200; programs: 200 for exit code 0, else 500
  std::string body;
};

class EngineTransport {
 public:
  using Done = std::function<void(Result<EngineAnswer>)>;
  virtual ~EngineTransport() = default;
  // `done` is called once, later, on the control thread; never after this object is gone.
  virtual void call(EngineCall call, Done done) = 0;
};

inline constexpr std::size_t kMaxEngineAnswer = 1u << 20;

// HTTP/1.1; the URL's path goes before each target. With a token, "Authorization: Bearer TOKEN". One connection a call.
std::unique_ptr<EngineTransport> http_transport(boost::asio::io_context& io, const EngineUrl& url, const std::string& token);
// A unix socket where one line of JSON is answered by one line of JSON. One connection a call.
std::unique_ptr<EngineTransport> socket_transport(boost::asio::io_context& io, const std::string& path);
// A program, run without a shell for each call: JSON on its standard input, JSON on its standard output. Killed when its
// time is up.
std::unique_ptr<EngineTransport> exec_transport(boost::asio::io_context& io, std::vector<std::string> command);

}  // namespace p2pw
