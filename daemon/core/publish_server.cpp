#include "daemon/core/publish_server.h"

#include <unistd.h>

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <deque>
#include <set>

#include "daemon/client/publish_client.h"
#include "daemon/core/api_server.h"
#include "protocol/publish.pb.h"

namespace p2pw {
namespace {

namespace asio = boost::asio;
using Local = asio::local::stream_protocol;

constexpr std::size_t kMaxSessions = 16;

std::uint32_t little(const unsigned char* p) {
  return p[0] | p[1] << 8 | p[2] << 16 | static_cast<std::uint32_t>(p[3]) << 24;
}
void put_little(std::string& out, std::size_t value) {
  for (int i = 0; i < 4; ++i) out += static_cast<char>(value >> (8 * i));
}

struct Sessions;

class Session : public PublishSession, public std::enable_shared_from_this<Session> {
 public:
  Session(Local::socket socket, std::shared_ptr<Sessions> all) : socket_(std::move(socket)), all_(std::move(all)) {}

  void send(const wire::PublishMessage& message) override {
    if (closing_) return;
    std::string body = message.SerializeAsString(), out;
    put_little(out, body.size());
    put_little(out, 0);
    queue_.push_back(out + body);
    if (queue_.size() == 1) write();
  }
  void refuse(const Error& error) override {
    wire::PublishMessage message;
    message.mutable_error()->set_code(std::string(name_of(error.code)));
    message.mutable_error()->set_message(error.message);
    send(message);
    closing_ = true;
    if (queue_.empty()) finish();
  }
  void pause() override { paused_ = true; }
  void resume() override {
    paused_ = false;
    if (wants_read_) read();
  }

  void read() {
    wants_read_ = paused_;
    if (paused_ || closing_ || closed_) return;
    asio::async_read(socket_, asio::buffer(head_), [self = shared_from_this()](auto error, std::size_t) {
      if (error) return self->finish();
      std::size_t header = little(self->head_), payload = little(self->head_ + 4);
      if (header > kMaxPublishHeader || payload > kMaxPublishPayload) {
        return self->refuse(fail(ErrorCode::limit, "a publish message is too large"));
      }
      self->header_.resize(header);
      self->payload_.resize(payload);
      self->read_body();
    });
  }
  void finish();
  void shut() {
    boost::system::error_code ignored;
    socket_.close(ignored);
  }

 private:
  void read_body();
  void write() {
    asio::async_write(socket_, asio::buffer(queue_.front()), [self = shared_from_this()](auto error, std::size_t) {
      if (error) return self->finish();
      self->queue_.pop_front();
      if (!self->queue_.empty()) return self->write();
      if (self->closing_) self->finish();
    });
  }

  Local::socket socket_;
  std::shared_ptr<Sessions> all_;
  unsigned char head_[8];
  std::string header_;
  Bytes payload_;
  std::deque<std::string> queue_;
  bool paused_ = false, wants_read_ = false, closing_ = false, closed_ = false;
};

struct Sessions {
  PublishHost* host;
  std::set<std::shared_ptr<Session>> live;
};

void Session::read_body() {
  std::array<asio::mutable_buffer, 2> parts{asio::buffer(header_), asio::buffer(payload_.data(), payload_.size())};
  asio::async_read(socket_, parts, [self = shared_from_this()](auto error, std::size_t) {
    if (error) return self->finish();
    wire::PublishMessage message;
    if (!message.ParseFromString(self->header_)) {
      return self->refuse(fail(ErrorCode::malformed, "a publish message cannot be parsed"));
    }
    if (self->all_->host) self->all_->host->publish_message(self, message, std::move(self->payload_));
    self->payload_ = {};
    self->read();
  });
}

void Session::finish() {
  if (closed_) return;
  closed_ = closing_ = true;
  auto self = shared_from_this();
  shut();
  all_->live.erase(self);
  if (all_->host) all_->host->publish_closed(self);
}

class LocalServer : public PublishServer {
 public:
  LocalServer(Local::acceptor acceptor, std::filesystem::path path, PublishHost& host)
      : acceptor_(std::move(acceptor)), path_(std::move(path)), sessions_(std::make_shared<Sessions>()) {
    sessions_->host = &host;
  }
  ~LocalServer() override {
    sessions_->host = nullptr;
    for (auto& session : sessions_->live) session->shut();
    sessions_->live.clear();  // they hold what holds them
    boost::system::error_code ignored;
    acceptor_.close(ignored);
    unlink(path_.c_str());
  }
  void accept() {
    acceptor_.async_accept([this, sessions = sessions_](auto error, Local::socket socket) {
      if (error || !sessions->host) return;
      if (sessions->live.size() < kMaxSessions) {
        auto session = std::make_shared<Session>(std::move(socket), sessions);
        sessions->live.insert(session);
        session->read();
      }
      accept();
    });
  }

 private:
  Local::acceptor acceptor_;
  std::filesystem::path path_;
  std::shared_ptr<Sessions> sessions_;
};

}  // namespace

Result<std::unique_ptr<PublishServer>> PublishServer::start(asio::io_context& io, const std::filesystem::path& socket,
                                                            PublishHost& host) {
  P2PW_TRY(int fd, listen_unix(socket));
  auto server = std::make_unique<LocalServer>(Local::acceptor(io, Local(), fd), socket, host);
  server->accept();
  return std::unique_ptr<PublishServer>(std::move(server));
}

}  // namespace p2pw
