// Resolves and connects with a time-out, from a given local address. One attempt; try again from outside.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <functional>
#include <memory>

#include "daemon/link/link_hub.h"

namespace p2pw {

// Cancels the attempt when destroyed; the callback is not made then.
class Connecting {
 public:
  virtual ~Connecting() = default;
};

// `local`: unspecified = the system chooses. `done` is called once, never from inside this call, with a
// connected socket or with `unreachable` / `timed_out`.
std::shared_ptr<Connecting> connect_to(boost::asio::io_context& io, const LinkEndpoint& endpoint,
                                       const boost::asio::ip::address& local,
                                       std::chrono::milliseconds timeout,
                                       std::function<void(Result<boost::asio::ip::tcp::socket>)> done);

std::string to_string(const LinkEndpoint& endpoint);  // host:port, [v6]:port

}  // namespace p2pw
