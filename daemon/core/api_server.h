// The local HTTP server: over the unix socket api.sock, and over loopback TCP where the configuration says so (then with a
// bearer token). What the requests mean is for its handler.
//
// It answers no web page but its own (api_guard.h). Bounded: body, header, connections, idle time. Control thread only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "daemon/client/api.h"
#include "daemon/core/api_guard.h"
#include "protocol/result.h"

namespace p2pw {

struct ApiResponse {
  int status = 200;
  std::string body;
  std::string type = "application/json";
};

// The status that the error's code maps to, and the error as JSON. Bytes that are no UTF-8 (a request's path may be
// anything) are replaced.
ApiResponse error_response(const Error& error);
ApiResponse json_response(const Json& value);

class ApiServer {
 public:
  // Called once for each request; the reply may come later, or never when the client is gone.
  using Reply = std::function<void(ApiResponse)>;
  using Handler = std::function<void(ApiRequest, Reply)>;

  struct Options {
    std::filesystem::path socket;
    std::string http_address;  // empty: no TCP
    std::uint16_t http_port = 0;
    std::string token;
    std::set<std::string> open_paths = {};  // GET without the token: pages that hold nothing secret
  };
  // Errors: io (the socket cannot be made; a dead one that is in the way is replaced), busy (somebody answers there).
  static Result<std::unique_ptr<ApiServer>> start(boost::asio::io_context& io, const Options& options, Handler handler);
  virtual ~ApiServer() = default;
  virtual std::uint16_t http_port() const = 0;
};

// Makes a listening unix socket at `path`, mode 0660. A socket that nobody answers is replaced. Returns the descriptor.
Result<int> listen_unix(const std::filesystem::path& path);

}  // namespace p2pw
