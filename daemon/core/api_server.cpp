#include "daemon/core/api_server.h"

#include <unistd.h>

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <nlohmann/json.hpp>

namespace p2pw {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

constexpr std::size_t kMaxConnections = 256;
constexpr auto kIdle = std::chrono::seconds(30);
constexpr std::uint64_t kMaxRequestBody = 1u << 20;

struct Shared {
  ApiServer::Handler handler;
  std::string token;
  std::set<std::string> open_paths;
  std::size_t connections = 0;
};

template <class Stream>
class Session : public std::enable_shared_from_this<Session<Stream>> {
 public:
  Session(Stream stream, std::shared_ptr<Shared> shared, bool tcp)
      : stream_(std::move(stream)), shared_(std::move(shared)), tcp_(tcp) {
    ++shared_->connections;
  }
  ~Session() { --shared_->connections; }

  void read() {
    parser_.emplace();
    parser_->body_limit(kMaxRequestBody);
    parser_->header_limit(16 << 10);
    stream_.expires_after(kIdle);
    http::async_read(stream_, buffer_, *parser_, [self = this->shared_from_this()](beast::error_code error, std::size_t) {
      if (!error) self->handle();
    });
  }

 private:
  std::optional<ApiResponse> refusal(const http::request<http::string_body>& request) const {
    auto text = [&](auto name) {
      auto value = request[name];
      return std::string_view(value.data(), value.size());
    };
    const ApiHeaders headers{text(http::field::host), text(http::field::origin), text("Sec-Fetch-Site"),
                             text(http::field::authorization), request.find(http::field::origin) != request.end()};
    const ApiRefusal refusal = judge_request(headers, tcp_, is_open(request) ? std::string() : shared_->token);
    if (!refusal) return std::nullopt;
    ApiResponse refused = error_response(fail(ErrorCode::untrusted, refusal.why));
    refused.status = refusal.status;
    return refused;
  }

  bool is_open(const http::request<http::string_body>& request) const {
    std::string_view target(request.target().data(), request.target().size());
    return request.method() == http::verb::get && shared_->open_paths.contains(std::string(target.substr(0, target.find('?'))));
  }

  void handle() {
    auto request = parser_->release();
    keep_alive_ = request.keep_alive();
    version_ = request.version();
    if (auto refused = refusal(request)) return write(std::move(*refused));
    auto target = request.target();
    auto method = request.method_string();
    ApiRequest call = parse_target({method.data(), method.size()}, {target.data(), target.size()});
    auto deployment = request["fireworks-deployment"];
    call.deployment.assign(deployment.data(), deployment.size());
    call.body = std::move(request.body());
    stream_.expires_never();  // a long poll ends by itself
    held_ = this->shared_from_this();  // until the reply, which may come at once
    shared_->handler(std::move(call), [weak = this->weak_from_this()](ApiResponse response) {
      if (auto self = weak.lock()) self->write(std::move(response));
    });
  }

  void write(ApiResponse response) {
    auto reply = std::make_shared<http::response<http::string_body>>(
        static_cast<http::status>(response.status), version_);
    reply->set(http::field::server, "p2pwd");
    reply->set(http::field::content_type, response.type);
    reply->set(http::field::cache_control, "no-store");
    reply->set("X-Content-Type-Options", "nosniff");
    if (response.type.starts_with("text/html")) {
      reply->set("Content-Security-Policy", "default-src 'self' 'unsafe-inline'; img-src data:; frame-ancestors 'none'");
    }
    reply->keep_alive(keep_alive_);
    reply->body() = std::move(response.body);
    reply->prepare_payload();
    stream_.expires_after(kIdle);
    auto self = this->shared_from_this();
    held_.reset();
    http::async_write(stream_, *reply, [self, reply](beast::error_code error, std::size_t) {
      if (!error && self->keep_alive_) self->read();
    });
  }

  Stream stream_;
  std::shared_ptr<Shared> shared_;
  bool tcp_;
  beast::flat_buffer buffer_{64 << 10};
  std::optional<http::request_parser<http::string_body>> parser_;
  std::shared_ptr<Session> held_;
  bool keep_alive_ = false;
  unsigned version_ = 11;
};

template <class Protocol>
class Acceptor : public std::enable_shared_from_this<Acceptor<Protocol>> {
 public:
  using Stream = beast::basic_stream<Protocol>;
  Acceptor(typename Protocol::acceptor acceptor, std::shared_ptr<Shared> shared, bool tcp)
      : acceptor_(std::move(acceptor)), shared_(std::move(shared)), tcp_(tcp) {}
  void accept() {
    acceptor_.async_accept([self = this->shared_from_this()](beast::error_code error, typename Protocol::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (!error && self->shared_->connections < kMaxConnections) {
        std::make_shared<Session<Stream>>(Stream(std::move(socket)), self->shared_, self->tcp_)->read();
      }
      self->accept();
    });
  }
  void stop() {
    beast::error_code ignored;
    acceptor_.close(ignored);
  }
  auto endpoint() const { return acceptor_.local_endpoint(); }

 private:
  typename Protocol::acceptor acceptor_;
  std::shared_ptr<Shared> shared_;
  bool tcp_;
};

class BeastServer : public ApiServer {
 public:
  explicit BeastServer(std::shared_ptr<Shared> shared, std::filesystem::path socket)
      : shared_(std::move(shared)), socket_(std::move(socket)) {}
  ~BeastServer() override {
    if (unix_) unix_->stop();
    if (tcp_) tcp_->stop();
    shared_->handler = [](ApiRequest, Reply) {};
    unlink(socket_.c_str());
  }
  std::uint16_t http_port() const override { return tcp_ ? tcp_->endpoint().port() : 0; }

  std::shared_ptr<Shared> shared_;
  std::filesystem::path socket_;
  std::shared_ptr<Acceptor<asio::local::stream_protocol>> unix_;
  std::shared_ptr<Acceptor<asio::ip::tcp>> tcp_;
};

}  // namespace

ApiResponse json_response(const Json& value) { return {200, value.dump(-1, ' ', false, Json::error_handler_t::replace)}; }

ApiResponse error_response(const Error& error) {
  ApiResponse response = json_response(api::to_json(error));
  response.status = api::http_status_of(error.code);
  return response;
}

Result<std::unique_ptr<ApiServer>> ApiServer::start(asio::io_context& io, const Options& options, Handler handler) {
  auto shared = std::make_shared<Shared>();
  shared->handler = std::move(handler);
  shared->token = options.token;
  shared->open_paths = options.open_paths;
  auto server = std::make_unique<BeastServer>(shared, options.socket);
  try {
    P2PW_TRY(int fd, listen_unix(options.socket));
    asio::local::stream_protocol::acceptor local(io, asio::local::stream_protocol(), fd);
    server->unix_ = std::make_shared<Acceptor<asio::local::stream_protocol>>(std::move(local), shared, false);
    server->unix_->accept();
    if (!options.http_address.empty()) {
      asio::ip::tcp::endpoint endpoint(asio::ip::make_address(options.http_address), options.http_port);
      asio::ip::tcp::acceptor tcp(io, endpoint);
      server->tcp_ = std::make_shared<Acceptor<asio::ip::tcp>>(std::move(tcp), shared, true);
      server->tcp_->accept();
    }
  } catch (const boost::system::system_error& error) {
    return fail(ErrorCode::io, "cannot listen for the API at " + options.http_address + ":" +
                                   std::to_string(options.http_port) + ": " + error.code().message());
  }
  return std::unique_ptr<ApiServer>(std::move(server));
}

}  // namespace p2pw
