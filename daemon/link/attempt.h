// A connection whose peer has not proven itself yet: a Handshake, the connection it talks over, and a
// deadline.
//
// Shared by its owner and the pending timer. After release() or cancel() it is of no further use and calls
// nobody.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>

#include "daemon/link/connection.h"
#include "daemon/link/handshake.h"

namespace p2pw {

class Attempt final : public Connection::User, public std::enable_shared_from_this<Attempt> {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    // The initiator knows whom it has reached; an error ends the attempt without an offer.
    virtual Status attempt_may_offer(Attempt& attempt) = 0;
    // A responder's peer is proven: answer() and release(), or cancel(), now or later.
    virtual void attempt_decide(const std::shared_ptr<Attempt>& attempt) = 0;
    // An initiator's peer is proven: release() or cancel().
    virtual void attempt_proven(const std::shared_ptr<Attempt>& attempt) = 0;
    // Over: refused, broken or too late. The connection is closed.
    virtual void attempt_failed(const std::shared_ptr<Attempt>& attempt, const Error& reason) = 0;
  };

  Attempt(boost::asio::ip::tcp::socket socket, const TlsContext& tls, Handshake handshake,
          std::shared_ptr<LinkScratch> scratch, Owner& owner);
  void start(std::chrono::milliseconds deadline);

  // Tells the peer that it is accepted. False when that has become impossible; the attempt has failed then.
  bool answer();
  // The connection, for another user. REQUIRES: proven.
  std::shared_ptr<Connection> release();
  // Closes without a word.
  void cancel();

  const Handshake& handshake() const { return handshake_; }
  const std::string& remote_address() const { return remote_address_; }

  // What it was dialled for.
  std::optional<LinkEndpoint> target;

 private:
  void secured(Connection& connection) override;
  void received(Connection& connection, Frame frame) override;
  void closed(Connection& connection, const Error& reason) override;
  void say(const wire::Handshake& message);
  void failed(const Error& reason);

  Handshake handshake_;
  Owner& owner_;
  std::shared_ptr<Connection> connection_;
  std::string remote_address_;
  boost::asio::steady_timer timer_;
  bool over_ = false;
};

}  // namespace p2pw
