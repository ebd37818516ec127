#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include "daemon/client/version.h"
#include "daemon/core/engine_transport.h"

namespace p2pw {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;

// One call on one connection; lives until its answer.
class HttpCall : public std::enable_shared_from_this<HttpCall> {
 public:
  HttpCall(asio::io_context& io, const EngineUrl& url, std::string token, EngineCall call,
           std::function<void(Result<EngineAnswer>)> done)
      : resolver_(io), stream_(io), url_(url), call_(std::move(call)), done_(std::move(done)) {
    request_.method_string(call_.method);
    std::string target = url_.path + call_.target;
    request_.target(target.empty() ? "/" : target);
    request_.version(11);
    request_.set(http::field::host, (url_.host.find(':') == url_.host.npos ? url_.host : "[" + url_.host + "]") + ":" + url_.port);
    request_.set(http::field::user_agent, std::string("p2pwd/") + kSoftwareVersion);
    request_.set(http::field::accept, "application/json");
    request_.set(http::field::connection, "close");
    if (!token.empty()) request_.set(http::field::authorization, "Bearer " + token);
    if (!call_.body.empty()) request_.set(http::field::content_type, "application/json");
    request_.body() = call_.body;
    request_.prepare_payload();
    parser_.body_limit(kMaxEngineAnswer);
    parser_.header_limit(16 << 10);
  }

  void start() {
    stream_.expires_after(call_.time_out);
    resolver_.async_resolve(url_.host, url_.port, [self = shared_from_this()](beast::error_code error, tcp::resolver::results_type found) {
      if (error) return self->end(fail(ErrorCode::unreachable, self->name() + ": no such host: " + error.message()));
      self->connect(found);
    });
  }

  void stop() {
    done_ = nullptr;
    resolver_.cancel();
    stream_.close();
  }

 private:
  void connect(const tcp::resolver::results_type& found) {
    stream_.async_connect(found, [self = shared_from_this()](beast::error_code error, const tcp::endpoint&) {
      if (error) return self->end(fail(ErrorCode::unreachable, self->name() + ": nobody listens: " + error.message()));
      self->stream_.socket().set_option(tcp::no_delay(true), error);
      http::async_write(self->stream_, self->request_, [self](beast::error_code written, std::size_t) {
        if (written) return self->end(self->broken(written));
        self->read();
      });
    });
  }

  void read() {
    http::async_read(stream_, buffer_, parser_, [self = shared_from_this()](beast::error_code error, std::size_t) {
      if (error) return self->end(self->broken(error));
      auto answer = self->parser_.release();
      self->end(EngineAnswer{static_cast<int>(answer.result_int()), std::move(answer.body())});
    });
  }

  std::string name() const { return call_.method + " http://" + url_.host + ":" + url_.port + url_.path + call_.target; }

  Error broken(beast::error_code error) const {
    if (error == beast::error::timeout) {
      return fail(ErrorCode::timed_out, name() + ": no answer in " + std::to_string(call_.time_out.count()) + " ms");
    }
    if (error == http::error::body_limit) return fail(ErrorCode::limit, name() + ": an answer of more than 1 MiB");
    return fail(ErrorCode::incomplete, name() + ": the connection broke before the answer: " + error.message());
  }

  void end(Result<EngineAnswer> answer) {
    stream_.close();
    if (auto done = std::exchange(done_, nullptr)) done(std::move(answer));
  }

  tcp::resolver resolver_;
  beast::tcp_stream stream_;
  EngineUrl url_;
  EngineCall call_;
  std::function<void(Result<EngineAnswer>)> done_;
  http::request<http::string_body> request_;
  http::response_parser<http::string_body> parser_;
  beast::flat_buffer buffer_;
};

class HttpTransport : public EngineTransport {
 public:
  HttpTransport(asio::io_context& io, EngineUrl url, std::string token)
      : io_(io), url_(std::move(url)), token_(std::move(token)) {}
  ~HttpTransport() override {
    for (auto& weak : calls_) {
      if (auto call = weak.lock()) call->stop();
    }
  }
  void call(EngineCall call, Done done) override {
    std::erase_if(calls_, [](auto& weak) { return weak.expired(); });
    auto started = std::make_shared<HttpCall>(io_, url_, token_, std::move(call), std::move(done));
    calls_.push_back(started);
    started->start();
  }

 private:
  asio::io_context& io_;
  EngineUrl url_;
  std::string token_;
  std::vector<std::weak_ptr<HttpCall>> calls_;
};

}  // namespace

std::unique_ptr<EngineTransport> http_transport(asio::io_context& io, const EngineUrl& url, const std::string& token) {
  return std::make_unique<HttpTransport>(io, url, token);
}

}  // namespace p2pw
