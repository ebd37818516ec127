// The publish socket: where `p2pw seed` hands a version over, message by message (protocol/publish.proto). A connection
// is a publishing session; what its messages mean is for the PublishHost. Who may connect is a matter of the socket's
// group. Control thread only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <filesystem>
#include <memory>

#include "protocol/ids.h"

namespace p2pw {

namespace wire {
class PublishMessage;
}

class PublishSession {
 public:
  virtual ~PublishSession() = default;
  virtual void send(const wire::PublishMessage& message) = 0;
  // Says why and closes.
  virtual void refuse(const Error& error) = 0;
  // No further message is read until resume(): what was sent is still being stored.
  virtual void pause() = 0;
  virtual void resume() = 0;
};
using PublishSessionPtr = std::shared_ptr<PublishSession>;

class PublishHost {
 public:
  virtual ~PublishHost() = default;
  virtual void publish_message(const PublishSessionPtr& session, const wire::PublishMessage& message, Bytes payload) = 0;
  // The seed hung up, was killed, or was refused. Always the last call for a session.
  virtual void publish_closed(const PublishSessionPtr& session) = 0;
};

class PublishServer {
 public:
  // Errors: io, busy. The host must outlive the server.
  static Result<std::unique_ptr<PublishServer>> start(boost::asio::io_context& io, const std::filesystem::path& socket,
                                                      PublishHost& host);
  virtual ~PublishServer() = default;
};

}  // namespace p2pw
