// A peer for tests that follows the rules only as far as the test wants: it has TLS and framing, and says
// what it is told.
#pragma once

#include <openssl/ssl.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <deque>
#include <functional>

#include "daemon/link/connection.h"
#include "daemon/link/handshake.h"
#include "tests/daemon/link_world.h"

namespace p2pw::testing {

class HostilePeer final : public Connection::User {
 public:
  explicit HostilePeer(boost::asio::io_context& io)
      : HostilePeer(io, NodeIdentity::make(SigningKey::generate()).value()) {}
  HostilePeer(boost::asio::io_context& io, const NodeIdentity& as)
      : io_(io), identity(as), tls_(TlsContext::make(identity).value()) {}
  ~HostilePeer() override {
    if (connection) connection->close();
  }

  void connect(const LinkEndpoint& to, std::function<void()> when_secured) {
    boost::asio::ip::tcp::socket socket(io_);
    socket.connect({boost::asio::ip::make_address(to.host), to.port});
    begin(std::move(socket), LinkSide::initiator, std::move(when_secured));
  }
  // Takes the first connection at the endpoint that is returned; further ones are left hanging.
  LinkEndpoint accept(std::function<void()> when_secured) {
    acceptor_.emplace(io_, boost::asio::ip::tcp::endpoint(boost::asio::ip::make_address("127.0.0.1"), 0));
    accept_next(std::move(when_secured));
    return {"127.0.0.1", acceptor_->local_endpoint().port()};
  }
  std::size_t knocks() const { return hanging_.size(); }

  // The offer that would be right here, for a peer with this secret.
  wire::Handshake offer(const FleetSecret& secret, LinkPurpose purpose) const {
    return proof(secret, purpose, LinkSide::initiator);
  }
  // The same for the other side.
  wire::Handshake answer(const FleetSecret& secret, LinkPurpose purpose) const {
    return proof(secret, purpose, LinkSide::responder);
  }

  void say(const std::string& header, const Bytes& payload = {}) {
    Bytes bytes = frame_head(header, payload.size()).value();
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    say_raw(std::move(bytes));
  }
  void say_raw(Bytes bytes) { connection->send(Outgoing{.head = std::move(bytes)}); }
  // A prefix that announces these lengths.
  static Bytes prefix(std::uint32_t header, std::uint32_t payload) {
    Bytes bytes;
    for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<std::byte>(header >> (8 * i)));
    for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<std::byte>(payload >> (8 * i)));
    return bytes;
  }

  void secured(Connection&) override {
    connection->set_proven();  // reads whatever comes
    if (when_secured_) when_secured_();
  }
  void received(Connection&, Frame frame) override {
    frames.push_back(std::move(frame));
    if (on_frame) on_frame(frames.back());
  }
  void closed(Connection&, const Error& reason) override {
    gone = true;
    why = reason;
  }

 private:
  wire::Handshake proof(const FleetSecret& secret, LinkPurpose purpose, LinkSide side) const {
    const NodeKey other = connection->tls().peer_key().value();
    const bool first = side == LinkSide::initiator;
    const ProofContext context{.side = side,
                               .purpose = purpose,
                               .initiator = first ? identity.key() : other,
                               .responder = first ? other : identity.key(),
                               .exporter = connection->tls().exporter().value()};
    const LinkProof made = fleet_proof(secret, context);
    wire::Handshake message;
    message.set_protocol(kLinkProtocol);
    message.set_purpose(static_cast<wire::Handshake::Purpose>(purpose));
    message.set_secret_id(std::string(secret.id().text()));
    message.set_proof(made.data(), made.size());
    if (purpose == LinkPurpose::control) {
      message.mutable_hello()->set_node(std::string(identity.key().text()));
      message.mutable_hello()->set_region("hostile");
    }
    return message;
  }
  void accept_next(std::function<void()> when_secured) {
    acceptor_->async_accept(
        [this, when_secured](boost::system::error_code error, boost::asio::ip::tcp::socket socket) {
          if (error) return;
          if (connection == nullptr) {
            begin(std::move(socket), LinkSide::responder, when_secured);
          } else {
            hanging_.push_back(std::move(socket));
          }
          accept_next(nullptr);
        });
  }
  void begin(boost::asio::ip::tcp::socket socket, LinkSide side, std::function<void()> when_secured) {
    when_secured_ = std::move(when_secured);
    connection = std::make_shared<Connection>(std::move(socket), tls_, side, nullptr,
                                              std::make_shared<LinkScratch>(), *this);
    connection->start();
  }
  boost::asio::io_context& io_;

 public:
  NodeIdentity identity;
  std::shared_ptr<Connection> connection;
  std::deque<Frame> frames;
  std::function<void(const Frame&)> on_frame;
  bool gone = false;
  Error why;

 private:
  TlsContext tls_;
  std::optional<boost::asio::ip::tcp::acceptor> acceptor_;
  std::vector<boost::asio::ip::tcp::socket> hanging_;
  std::function<void()> when_secured_;
};

// A plain OpenSSL client over a socket that outlives it: shakes hands, reads, until the other side closes.
class RawTls {
 public:
  RawTls(boost::asio::ip::tcp::socket& socket, SSL_CTX* ctx) : socket_(socket), ssl_(SSL_new(ctx), SSL_free) {
    BIO_set_mem_eof_return(in_, -1);
    SSL_set_bio(ssl_.get(), in_, out_);
    SSL_set_connect_state(ssl_.get());
    turn();
  }
  RawTls(const RawTls&) = delete;

  bool closed() const { return closed_; }
  std::size_t plain() const { return plain_; }  // bytes that came out of the session
  SSL* ssl() { return ssl_.get(); }

 private:
  void turn() {
    if (SSL_do_handshake(ssl_.get()) == 1) {
      const int n = SSL_read(ssl_.get(), sink_, sizeof sink_);
      plain_ += n > 0 ? static_cast<std::size_t>(n) : 0;
    }
    char* data = nullptr;
    const long size = BIO_get_mem_data(out_, &data);
    boost::system::error_code error;
    if (size > 0) boost::asio::write(socket_, boost::asio::buffer(data, static_cast<std::size_t>(size)), error);
    (void)BIO_reset(out_);
    socket_.async_read_some(boost::asio::buffer(sink_), [this](boost::system::error_code failed, std::size_t count) {
      if (failed) {
        closed_ = true;
        return;
      }
      BIO_write(in_, sink_, static_cast<int>(count));
      turn();
    });
  }

  boost::asio::ip::tcp::socket& socket_;
  std::unique_ptr<SSL, void (*)(SSL*)> ssl_;
  BIO *in_ = BIO_new(BIO_s_mem()), *out_ = BIO_new(BIO_s_mem());
  bool closed_ = false;
  std::size_t plain_ = 0;
  char sink_[4096];
};

}  // namespace p2pw::testing
