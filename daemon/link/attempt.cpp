#include "daemon/link/attempt.h"

namespace p2pw {

Attempt::Attempt(boost::asio::ip::tcp::socket socket, const TlsContext& tls, Handshake handshake,
                 std::shared_ptr<LinkScratch> scratch, Owner& owner)
    : handshake_(std::move(handshake)), owner_(owner), timer_(socket.get_executor()) {
  connection_ = std::make_shared<Connection>(
      std::move(socket), tls, handshake_.side(), [this](const NodeKey& key) { return handshake_.judge(key); },
      std::move(scratch), *this);
  remote_address_ = connection_->remote_address();
}

void Attempt::start(std::chrono::milliseconds deadline) {
  timer_.expires_after(deadline);
  timer_.async_wait([this, self = shared_from_this()](boost::system::error_code error) {
    if (!error) failed(fail(ErrorCode::timed_out, "the peer did not prove itself in time"));
  });
  connection_->start();
}

void Attempt::secured(Connection& connection) {
  auto self = shared_from_this();
  auto key = connection.tls().peer_key();
  if (!key) return failed(key.error());
  auto exporter = connection.tls().exporter();
  if (!exporter) return failed(exporter.error());
  auto offer = handshake_.secured(*key, *exporter);
  if (!offer) return failed(offer.error());
  if (!*offer) return;
  if (auto may = owner_.attempt_may_offer(*this); !may) return failed(may.error());
  say(**offer);
}

void Attempt::received(Connection&, Frame frame) {
  auto self = shared_from_this();
  if (auto accepted = handshake_.received(frame.header); !accepted) return failed(accepted.error());
  if (handshake_.state() == Handshake::State::deciding) {
    owner_.attempt_decide(self);
  } else {
    owner_.attempt_proven(self);
  }
}

void Attempt::closed(Connection&, const Error& reason) {
  const bool offered = handshake_.state() == Handshake::State::awaiting_answer;
  failed(offered && reason.code == ErrorCode::io
             ? fail(ErrorCode::untrusted,
                    "node " + handshake_.peer_key().short_hex() +
                        " closed the connection instead of answering: it does not accept this "
                        "node's key or secret, or is linked with it already")
             : reason);
}

bool Attempt::answer() {
  if (over_) return false;
  auto message = handshake_.answer();
  if (!message) {
    failed(message.error());
    return false;
  }
  say(*message);
  return true;
}

void Attempt::say(const wire::Handshake& message) {
  auto head = frame_head(message.SerializeAsString(), 0);
  if (!head) return failed(head.error());
  connection_->send(Outgoing{.head = std::move(*head)});
}

std::shared_ptr<Connection> Attempt::release() {
  over_ = true;
  timer_.cancel();
  return std::exchange(connection_, nullptr);
}

void Attempt::cancel() {
  if (std::exchange(over_, true)) return;
  timer_.cancel();
  connection_->close();
}

void Attempt::failed(const Error& reason) {
  if (over_) return;
  handshake_.refuse();
  cancel();
  owner_.attempt_failed(shared_from_this(), reason);
}

}  // namespace p2pw
