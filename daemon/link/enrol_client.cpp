#include "daemon/link/enrol_client.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "daemon/link/alive.h"
#include "daemon/link/attempt.h"
#include "daemon/link/connector.h"
#include "daemon/link/printable.h"

namespace p2pw {
namespace {

namespace asio = boost::asio;

class Request final : public EnrolClient, public Attempt::Owner, public Connection::User {
 public:
  using Done = std::function<void(Result<wire::EnrolReply>)>;

  Request(asio::io_context& io, EnrolRequest request, Done done)
      : io_(io),
        request_(std::move(request)),
        done_(std::move(done)),
        trust_(request_.identity.key()),
        timer_(io) {}

  ~Request() override { stop(); }

  void start() {
    timer_.expires_after(request_.timeout);
    timer_.async_wait(alive_.guard([this](boost::system::error_code error) {
      if (!error) end(fail(ErrorCode::timed_out, "no answer from " + to_string(request_.endpoint)));
    }));
    boost::system::error_code wrong;
    const auto bound = asio::ip::make_address(request_.bind_address, wrong);
    connecting_ = connect_to(io_, request_.endpoint, wrong ? asio::ip::address() : bound, request_.timeout,
                             [this](Result<asio::ip::tcp::socket> socket) { connected(std::move(socket)); });
  }

 private:
  void connected(Result<asio::ip::tcp::socket> socket) {
    if (!socket) return end(socket.error());
    auto tls = TlsContext::make(request_.identity);
    if (!tls) return end(tls.error());
    auto handshake = Handshake::initiate(trust_, wire::Hello(),
                                         {.purpose = LinkPurpose::enrol,
                                          .expected = request_.expected,
                                          .attempt = 0,
                                          .ticket = EnrolmentTicket{request_.id, request_.secret}});
    attempt_ = std::make_shared<Attempt>(std::move(socket).value(), *tls, std::move(handshake),
                                         std::make_shared<LinkScratch>(), *this);
    attempt_->start(request_.timeout);
  }

  Status attempt_may_offer(Attempt&) override { return {}; }
  void attempt_decide(const std::shared_ptr<Attempt>&) override {}
  void attempt_failed(const std::shared_ptr<Attempt>&, const Error& reason) override {
    const bool closed =
        reason.code == ErrorCode::untrusted && attempt_->handshake().peer_key() == request_.expected;
    end(closed ? fail(ErrorCode::untrusted,
                      to_string(request_.endpoint) +
                          " does not accept the token: it is unknown there, used up or expired; "
                          "make another with `p2pw token`")
               : reason);
  }
  void attempt_proven(const std::shared_ptr<Attempt>& attempt) override {
    connection_ = attempt->release();
    connection_->set_user(*this);
    connection_->set_proven();
  }

  void secured(Connection&) override {}
  void received(Connection&, Frame frame) override {
    auto message = parse_link_message(frame.header, frame.payload.size());
    if (!message) return end(message.error());
    if (message->has_enrol_reply()) return end(message->enrol_reply());
    end(fail(ErrorCode::untrusted, message->has_goodbye() ? to_string(request_.endpoint) + " refuses: " +
                                                                printable(message->goodbye().reason())
                                                          : "an unexpected answer to the enrolment"));
  }
  void closed(Connection&, const Error& reason) override { end(reason); }

  void end(Result<wire::EnrolReply> result) {
    stop();
    // Posted, so that the callback may destroy this object.
    if (auto done = std::exchange(done_, nullptr)) {
      asio::post(io_, alive_.guard([done = std::move(done), result = std::move(result)]() mutable {
        done(std::move(result));
      }));
    }
  }

  void stop() {
    timer_.cancel();
    connecting_.reset();
    if (attempt_) attempt_->cancel();
    if (connection_) connection_->close();
  }

  asio::io_context& io_;
  EnrolRequest request_;
  Done done_;
  LinkTrust trust_;
  asio::steady_timer timer_;
  std::shared_ptr<Connecting> connecting_;
  std::shared_ptr<Attempt> attempt_;
  std::shared_ptr<Connection> connection_;
  Alive alive_;
};

}  // namespace

std::unique_ptr<EnrolClient> enrol(asio::io_context& io, EnrolRequest request,
                                   std::function<void(Result<wire::EnrolReply>)> done) {
  auto client = std::make_unique<Request>(io, std::move(request), std::move(done));
  client->start();
  return client;
}

}  // namespace p2pw
