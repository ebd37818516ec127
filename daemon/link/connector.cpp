#include "daemon/link/connector.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <vector>

namespace p2pw {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

class OneConnect final : public std::enable_shared_from_this<OneConnect> {
 public:
  using Done = std::function<void(Result<tcp::socket>)>;

  OneConnect(asio::io_context& io, const LinkEndpoint& endpoint, const asio::ip::address& local, Done done)
      : endpoint_(endpoint), local_(local), done_(std::move(done)), resolver_(io), socket_(io), timer_(io) {}

  void start(std::chrono::milliseconds timeout) {
    auto self = shared_from_this();
    timer_.expires_after(timeout);
    timer_.async_wait([this, self](boost::system::error_code error) {
      if (!error) end(fail(ErrorCode::timed_out, "no answer from " + to_string(endpoint_)));
    });
    boost::system::error_code not_literal;
    const auto address = asio::ip::make_address(endpoint_.host, not_literal);
    if (!not_literal) {
      candidates_.push_back(tcp::endpoint(address, endpoint_.port));
      asio::post(socket_.get_executor(), [this, self] { next(); });
      return;
    }
    resolver_.async_resolve(
        endpoint_.host, std::to_string(endpoint_.port), tcp::resolver::numeric_service,
        [this, self](boost::system::error_code error, tcp::resolver::results_type results) {
          if (error) return end(refused(error));
          for (const auto& entry : results) candidates_.push_back(entry.endpoint());
          next();
        });
  }

  void cancel() {
    done_ = nullptr;
    stop();
  }

 private:
  Error refused(boost::system::error_code error) const {
    return fail(ErrorCode::unreachable, "cannot reach " + to_string(endpoint_) + ": " + error.message());
  }

  void next() {
    if (!done_) return;
    if (tried_ == candidates_.size()) return end(refused(last_error_));
    const tcp::endpoint remote = candidates_[tried_++];
    boost::system::error_code error;
    socket_.close(error);
    socket_.open(remote.protocol(), error);
    if (!error) bind_local(remote, error);
    if (error) {
      last_error_ = error;
      return next();
    }
    auto self = shared_from_this();
    socket_.async_connect(remote, [this, self](boost::system::error_code failed) {
      if (!done_) return;
      if (!failed) return end(std::move(socket_));
      last_error_ = failed;
      next();
    });
  }

  void bind_local(const tcp::endpoint& remote, boost::system::error_code& error) {
    if (local_.is_unspecified() || local_.is_v4() != remote.address().is_v4()) return;
    const int on = 1;  // the port is chosen when the remote one is known, so they do not run out
    (void)setsockopt(socket_.native_handle(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    socket_.bind(tcp::endpoint(local_, 0), error);
  }

  void end(Result<tcp::socket> result) {
    if (!done_) return;
    auto done = std::exchange(done_, nullptr);
    stop();
    done(std::move(result));
  }

  void stop() {
    boost::system::error_code ignored;
    timer_.cancel();
    resolver_.cancel();
    if (socket_.is_open()) socket_.close(ignored);
  }

  LinkEndpoint endpoint_;
  asio::ip::address local_;
  Done done_;
  tcp::resolver resolver_;
  tcp::socket socket_;
  asio::steady_timer timer_;
  std::vector<tcp::endpoint> candidates_;
  std::size_t tried_ = 0;
  boost::system::error_code last_error_ = asio::error::host_not_found;
};

class Handle final : public Connecting {
 public:
  explicit Handle(std::shared_ptr<OneConnect> attempt) : attempt_(std::move(attempt)) {}
  ~Handle() override { attempt_->cancel(); }

 private:
  std::shared_ptr<OneConnect> attempt_;
};

}  // namespace

std::shared_ptr<Connecting> connect_to(asio::io_context& io, const LinkEndpoint& endpoint,
                                       const asio::ip::address& local, std::chrono::milliseconds timeout,
                                       std::function<void(Result<tcp::socket>)> done) {
  auto attempt = std::make_shared<OneConnect>(io, endpoint, local, std::move(done));
  attempt->start(timeout);
  return std::make_shared<Handle>(attempt);
}

std::string to_string(const LinkEndpoint& endpoint) {
  const bool v6 = endpoint.host.find(':') != std::string::npos;
  return (v6 ? "[" + endpoint.host + "]" : endpoint.host) + ":" + std::to_string(endpoint.port);
}

}  // namespace p2pw
