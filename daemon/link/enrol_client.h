// A token's way into the fleet: one authenticated request to one bootstrap daemon. TLS shows that the daemon
// has the key that the token names; the proof shows that we have the token's secret.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "daemon/link/identity.h"
#include "daemon/link/link_hub.h"
#include "protocol/token.h"

namespace boost::asio {
class io_context;
}

namespace p2pw {

struct EnrolRequest {
  NodeIdentity identity;  // the joining node's own
  LinkEndpoint endpoint;
  NodeKey expected;
  EnrolmentId id;
  EnrolmentSecret secret;
  std::string bind_address = {};  // as in LinkHubOptions
  std::chrono::milliseconds timeout{10'000};
};

// Destroying it gives up without a callback.
class EnrolClient {
 public:
  virtual ~EnrolClient() = default;
};

// `done` is called once, on the io_context's thread and never from inside this call. Errors: unreachable,
// timed_out, untrusted (another key there, or the token is not accepted), failed.
std::unique_ptr<EnrolClient> enrol(boost::asio::io_context& io, EnrolRequest request,
                                   std::function<void(Result<wire::EnrolReply>)> done);

}  // namespace p2pw
